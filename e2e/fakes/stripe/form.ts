/**
 * A form in Stripe's notation: `payload[value]=1` is a field `value` of `payload`,
 * `items[0][price]=p` the price of the first item.
 */
export type Form = { readonly [key: string]: FormValue };
export type FormValue = string | Form;

/** Parses the fields of a form body or a query; undefined when a name is malformed. */
export function parseForm(fields: URLSearchParams): Form | undefined {
  const root: Record<string, FormValue> = {};
  for (const [name, value] of fields) {
    const path = pathOf(name);
    if (path === undefined || !put(root, path, value)) return undefined;
  }
  return root;
}

function pathOf(name: string): readonly string[] | undefined {
  const match = /^([^[\]]+)((?:\[[^[\]]*\])*)$/.exec(name);
  if (match === null) return undefined;
  const inner = [...(match[2] ?? '').matchAll(/\[([^[\]]*)\]/g)].map(([, key = '']) => key);
  return [match[1] ?? '', ...inner];
}

function put(root: Record<string, FormValue>, path: readonly string[], value: string): boolean {
  let node = root;
  for (const key of path.slice(0, -1)) {
    const next: FormValue = node[key] ?? {};
    if (typeof next === 'string') return false;
    node[key] = next;
    node = next;
  }
  const last = path.at(-1) ?? '';
  if (last === '' || node[last] !== undefined) return false;
  node[last] = value;
  return true;
}

/** Returns a text field. */
export function text(form: Form, ...path: readonly string[]): string | undefined {
  const value = path.reduce<FormValue | undefined>(
    (node, key) => (typeof node === 'object' ? node[key] : undefined),
    form,
  );
  return typeof value === 'string' ? value : undefined;
}

/** Returns a field with fields of its own; empty when absent. */
export function nested(form: Form, key: string): Form {
  const value = form[key];
  return typeof value === 'object' ? value : {};
}

/** Returns a field with text fields, such as metadata. */
export function texts(form: Form, key: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(nested(form, key)).flatMap(([name, value]) =>
      typeof value === 'string' ? [[name, value]] : [],
    ),
  );
}

/** Returns an array, whose indexes must begin at 0 and be consecutive. */
export function items(form: Form, key: string): readonly Form[] {
  const entries = nested(form, key);
  const list: Form[] = [];
  for (let index = 0; ; index += 1) {
    const entry = entries[String(index)];
    if (typeof entry !== 'object') return list;
    list.push(entry);
  }
}
