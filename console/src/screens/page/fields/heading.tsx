import type { ComponentChildren } from 'preact'

interface HeadingProps {
  readonly level: number
  readonly id: string
  readonly title: string
  readonly children: ComponentChildren
}

export function Heading ({ level, id, title, children }: HeadingProps) {
  const Tag = `h${Math.min(level, 6)}` as 'h2'
  return <Tag class='form-heading' id={id} title={title} tabIndex={-1}>{children}</Tag>
}
