/** Parameters of a request: nested objects and arrays of texts, numbers and booleans; undefined is left out. */
export interface Params {
  readonly [key: string]: Param;
}

type Param = string | number | boolean | undefined | Params | readonly Params[] | readonly string[];

/**
 * Parameters as Stripe reads them (facts 2.1): `payload[value]=1`, `items[0][price]=p`, the brackets as
 * they are and everything else percent-encoded.
 */
export function encodeForm(params: Params): string {
  return fieldsOf(params)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join('&');
}

function fieldsOf(params: Params): readonly (readonly [string, string])[] {
  return Object.entries(params).flatMap(([key, value]) => flatten(encodeURIComponent(key), value));
}

function flatten(name: string, value: Param | string): readonly (readonly [string, string])[] {
  if (value === undefined) return [];
  if (typeof value !== 'object') return [[name, String(value)]];
  return Object.entries(value as Readonly<Record<string, Param>>).flatMap(([key, inner]) =>
    flatten(`${name}[${encodeURIComponent(key)}]`, inner),
  );
}
