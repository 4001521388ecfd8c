import { stringify } from 'yaml';

/** A number of an answer with all digits: quantities have more digits than a double. */
export class ExactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Parses JSON and keeps the text of every number. Throws a SyntaxError. */
export function parseExact(text: string): unknown {
  return JSON.parse(text, keepText);
}

/** `context.source` is the number's own text (ECMAScript, JSON.parse source text access). */
function keepText(this: unknown, _key: string, value: unknown, ...rest: unknown[]): unknown {
  if (typeof value !== 'number') return value;
  const source = (rest[0] as { readonly source?: string } | undefined)?.source;
  return new ExactNumber(source ?? String(value));
}

/** JSON with an indent of two spaces, with every number as it was received. */
export function exactJson(value: unknown, indent = ''): string {
  const deeper = `${indent}  `;
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    const items = value.map((item) => deeper + exactJson(item, deeper));
    return `[\n${items.join(',\n')}\n${indent}]`;
  }
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value).map(
      ([key, field]) => `${deeper}${JSON.stringify(key)}: ${exactJson(field, deeper)}`,
    );
    return fields.length === 0 ? '{}' : `{\n${fields.join(',\n')}\n${indent}}`;
  }
  return JSON.stringify(value);
}

/** YAML with every number as it was received. */
export function exactYaml(value: unknown): string {
  return stringify(value, {
    lineWidth: 0,
    aliasDuplicateObjects: false,
    customTags: [
      {
        tag: 'tag:yaml.org,2002:float',
        default: true,
        identify: (each: unknown) => each instanceof ExactNumber,
        resolve: (text: string) => text,
        stringify: ({ value: each }) => (each instanceof ExactNumber ? each.text : String(each)),
      },
    ],
  });
}
