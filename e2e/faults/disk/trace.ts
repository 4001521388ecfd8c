/** What `shim.c` saw, with paths relative to the directory that is looked at. */
export type TraceLine =
  /** Written at its end, and synced at this size. */
  | { readonly kind: 'synced'; readonly inode: string; readonly size: number }
  /** Written in place and synced; its bytes are kept under this number. */
  | { readonly kind: 'synced-in-place'; readonly inode: string; readonly number: number }
  | { readonly kind: 'directory-synced'; readonly path: string }
  | NameChange;

/** A change of names, in the order in which the file system keeps them. */
export type NameChange =
  | { readonly kind: 'created'; readonly inode: string; readonly path: string }
  | {
      readonly kind: 'renamed';
      readonly inode: string;
      readonly from: string;
      readonly to: string;
    }
  | { readonly kind: 'deleted'; readonly inode: string; readonly path: string }
  | { readonly kind: 'made'; readonly path: string }
  | { readonly kind: 'removed'; readonly path: string };

/** The whole lines of a trace that concern what is below `directory`. */
export function parseTrace(text: string, directory: string): TraceLine[] {
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  return lines.flatMap((line) => parseLine(line, directory) ?? []);
}

function parseLine(line: string, directory: string): TraceLine | undefined {
  const below = (path: string | undefined): string | undefined => {
    if (path === directory) return '';
    return path?.startsWith(`${directory}/`) === true
      ? path.slice(directory.length + 1)
      : undefined;
  };
  const [complete = '', first = '', second = ''] = /^\w (\d+)? ?(\d+)? ?/.exec(line) ?? [];
  const rest = line.slice(complete.length);
  const path = below(rest);
  switch (line[0]) {
    case 'C':
      return path === undefined ? undefined : { kind: 'created', inode: first, path };
    case 'S':
      if (path === undefined) return undefined;
      return { kind: 'synced', inode: first, size: Number(second) };
    case 'I':
      if (path === undefined) return undefined;
      return { kind: 'synced-in-place', inode: first, number: Number(second) };
    case 'D':
      return path === undefined ? undefined : { kind: 'directory-synced', path };
    case 'U':
      return path === undefined ? undefined : { kind: 'deleted', inode: first, path };
    case 'M':
      return path === undefined ? undefined : { kind: 'made', path };
    case 'X':
      return path === undefined ? undefined : { kind: 'removed', path };
    case 'R': {
      const [from, to] = rest.split('\t').map(below);
      if (from === undefined || to === undefined) return undefined;
      return { kind: 'renamed', inode: first, from, to };
    }
    default:
      return undefined;
  }
}
