// Which texts are addresses of pictures.

const PICTURE_NAME =
  /\b(?:avatar|background|banner|cover|favicon|foto|hero|icon|image|img|logo|photo|picture|poster|thumbnail)s?\b/i
const KEY = /^(.*\/)([0-9A-Za-z]{22})(?:\.(?:jpg|png|webp|gif|avif)|\/w\d+\.(?:jpg|png|webp))$/

const PICTURE_ADDRESS = /^$|^(?:https?:\/\/|\.{0,2}\/)\S+$|^\S+\.(?:avif|gif|jpe?g|png|svg|webp)$/i

/** Whether a member probably has the address of a picture. @param label of the member */
export const isPictureName = (label: string): boolean => PICTURE_NAME.test(label)

const ALT = /^(?:alt|alternative)(?: text)?$|\balt(?: text)?$/i
/** Words that name no particular picture. */
const COMMON = /^(?:address|image|img|photo|picture|src|url)$/i

/** Whether a member probably describes a picture, for people who don't see it. @param label of the member */
export const isDescriptionName = (label: string): boolean => ALT.test(label)

/** Whether a description is of this picture: all its other words are words of the picture. Takes labels. */
export function describesPicture (description: string, picture: string): boolean {
  const words = picture.toLowerCase().split(' ')
  const rest = description.toLowerCase().replace(/\b(?:alt|alternative)(?: text)?$/, '').split(' ')
  return isDescriptionName(description) &&
    rest.every((word) => word === '' || COMMON.test(word) || words.includes(word))
}

/** Whether a picture can take the place of a text: it is empty or an address. */
export const isPictureAddress = (text: string): boolean => PICTURE_ADDRESS.test(text.trim())

/** Returns the key in the address of an asset that is a picture, or of its variant, and what is before it. */
export function pictureKeyOf (text: string): { readonly folder: string, readonly key: string } | undefined {
  const [, folder, key] = KEY.exec(text) ?? []
  return folder === undefined || key === undefined ? undefined : { folder, key }
}
