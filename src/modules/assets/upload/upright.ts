export interface Dimensions {
  readonly width: number
  readonly height: number
}

/** Returns the dimensions of a picture that may be turned by 90 degrees before it is shown. */
export const upright = ({ width, height }: Dimensions, isTurned: boolean): Dimensions =>
  isTurned ? { width: height, height: width } : { width, height }
