import { Component, createElement, type ComponentChild, type FunctionComponent } from 'preact'

/** Returns a component that is rendered again only when its properties differ. */
export function memo<Props extends object> (render: FunctionComponent<Props>): FunctionComponent<Props> {
  class Memo extends Component<Props> {
    override shouldComponentUpdate (next: Props): boolean {
      const before = this.props as Record<string, unknown>
      return Object.entries(next).some(([name, value]) => before[name] !== value)
    }

    override render (): ComponentChild {
      return createElement(render, this.props as Props)
    }
  }
  return Memo as unknown as FunctionComponent<Props>
}
