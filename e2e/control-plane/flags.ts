/** Command line flags without dashes; a list repeats the flag, null removes a default. */
export type Flags = Readonly<Record<string, string | readonly string[] | null>>;

/** The arguments of the defaults with the extra flags laid over them. */
export function renderFlags(defaults: Flags, extra: Flags = {}): string[] {
  return Object.entries({ ...defaults, ...extra }).flatMap(([name, value]) => {
    if (value === null) return [];
    const values = typeof value === 'string' ? [value] : value;
    return values.map((each) => `--${name}=${each}`);
  });
}
