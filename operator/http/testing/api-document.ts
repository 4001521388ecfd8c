import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { parse } from 'yaml';

type Json = Record<string, unknown>;

/** An answer as a client got it. */
export interface ReceivedAnswer {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
}

export interface ApiDocument {
  /** `GET /api/v1/status` and so on, sorted. */
  readonly operations: readonly string[];
  /** Whether an operation takes a body, by the document as it stands; false where it takes none. */
  takes(operation: string, body: unknown): boolean;
  /** Whether the schema of a parameter allows a text. */
  takesParameter(operation: string, name: string, text: string): boolean;
  /** Throws when the document does not allow an answer. */
  check(answer: ReceivedAnswer): void;
  /** The examples of a schema, each valid against it. */
  examplesOf(schema: string): readonly unknown[];
}

const METHODS = ['get', 'put', 'post', 'delete'];

/**
 * `docs/reference/openapi.yaml`, by which every answer in the tests is judged. Fields it does not
 * name are faults here.
 */
export function loadApiDocument(): ApiDocument {
  const source = readFileSync(
    new URL('../../../docs/reference/openapi.yaml', import.meta.url),
    'utf8',
  );
  const published = parse(source) as Json;
  const document = strict(published) as Json;
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  ajv.addSchema(document, 'api').addSchema(published, 'published');
  const paths = document['paths'] as Record<string, Json>;
  const compiled = new Map<string, ValidateFunction>();
  const validatorAt = (pointer: readonly string[]): ValidateFunction => {
    const reference = `api#${pointer.map((part) => `/${escapePointer(part)}`).join('')}`;
    const validate = compiled.get(reference) ?? ajv.compile({ $ref: reference });
    compiled.set(reference, validate);
    return validate;
  };
  /** By the document as it stands, which leaves open what it does not close. */
  const isValid = (pointer: readonly string[], value: unknown): boolean => {
    const path = pointer.map((part) => `/${escapePointer(part)}`).join('');
    return ajv.validate({ $ref: `published#${path}` }, value);
  };
  return {
    operations: operationsOf(paths),
    takes: (operation, body) => {
      const [method = '', path = ''] = operation.split(' ');
      const pointer = ['paths', path, method.toLowerCase(), 'requestBody'];
      if (at(published, pointer) === undefined) return false;
      return isValid([...pointer, 'content', 'application/json', 'schema'], body);
    },
    takesParameter: (operation, name, text) => {
      const [method = '', path = ''] = operation.split(' ');
      const pointer = ['paths', path, method.toLowerCase(), 'parameters'];
      const places = (at(published, pointer) as Json[]).map((item, index) => {
        const reference = item['$ref'];
        return typeof reference === 'string'
          ? reference.split('/').slice(1)
          : [...pointer, String(index)];
      });
      const place = places.find((one) => at(published, [...one, 'name']) === name);
      if (place === undefined) throw new Error(`${operation}: no parameter ${name}`);
      return isValid([...place, 'schema'], text);
    },
    check: (answer) => {
      const pointer = contentPointer(document, answer);
      if (pointer === undefined) return;
      const validate = validatorAt([...pointer, 'schema']);
      for (const value of valuesOf(answer)) {
        if (validate(value)) continue;
        throw new Error(`${nameOf(answer)}: not as documented: ${ajv.errorsText(validate.errors)}`);
      }
    },
    examplesOf: (schema) => {
      const pointer = ['components', 'schemas', schema];
      const examples = (at(document, pointer) as Json)['examples'] as unknown[];
      const validate = validatorAt(pointer);
      for (const example of examples) {
        if (!validate(example)) throw new Error(`${schema}: ${ajv.errorsText(validate.errors)}`);
      }
      return examples;
    },
  };
}

function operationsOf(paths: Record<string, Json>): string[] {
  return Object.entries(paths)
    .flatMap(([path, item]) =>
      METHODS.filter((method) => method in item).map((method) => `${method.toUpperCase()} ${path}`),
    )
    .toSorted();
}

/** Where the document describes the body of an answer; undefined for an answer without one. */
function contentPointer(document: Json, answer: ReceivedAnswer): string[] | undefined {
  const { contentType, status } = answer;
  const template = templateOf(Object.keys(document['paths'] as Json), answer.path);
  const item = template === undefined ? undefined : at(document, ['paths', template]);
  const method = answer.method.toLowerCase();
  const isKnown =
    template !== undefined && typeof item === 'object' && item !== null && method in item;
  const responses = isKnown ? ['paths', template, method, 'responses'] : undefined;
  const pointer = responses === undefined ? ERROR : responsePointer(document, responses, status);
  const content = at(document, [...pointer, 'content']) as Json | undefined;
  if (content === undefined && answer.text === '') return undefined;
  const media = contentType.split(';', 1)[0] ?? '';
  if (content === undefined || !(media in content)) {
    throw new Error(`${nameOf(answer)}: "${media}" is not documented`);
  }
  return [...pointer, 'content', media];
}

const ERROR = ['components', 'responses', 'Error'];

function responsePointer(document: Json, responses: readonly string[], status: number): string[] {
  const all = at(document, responses) as Json;
  const key = String(status) in all ? String(status) : 'default';
  // Any operation may answer these (see the document's own description).
  if (!(key in all)) return ERROR;
  const response = all[key] as Json;
  const reference = response['$ref'];
  if (typeof reference === 'string') return reference.split('/').slice(1);
  return [...responses, key];
}

function templateOf(templates: readonly string[], path: string): string | undefined {
  return templates.find((template) => {
    const pattern = template.replaceAll(/\{\w+\}/g, '[^/]+').replaceAll('.', '\\.');
    return new RegExp(`^${pattern}/?$`).test(path);
  });
}

function valuesOf({ contentType, text }: ReceivedAnswer): unknown[] {
  if (contentType.startsWith('application/json')) return [JSON.parse(text)];
  if (!contentType.startsWith('application/x-ndjson')) return [text];
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line): unknown => JSON.parse(line));
}

/** Objects that do not say otherwise may have no further fields. */
function strict(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(strict);
  if (typeof node !== 'object' || node === null) return node;
  const copy = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, strict(value)]));
  const closable = copy['type'] === 'object' && 'properties' in copy;
  return closable && !('additionalProperties' in copy)
    ? { ...copy, additionalProperties: false }
    : copy;
}

function at(document: unknown, pointer: readonly string[]): unknown {
  return pointer.reduce<unknown>((node, part) => (node as Json | undefined)?.[part], document);
}

function escapePointer(part: string): string {
  return encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));
}

function nameOf({ method, path, status }: ReceivedAnswer): string {
  return `${method} ${path} → ${status}`;
}
