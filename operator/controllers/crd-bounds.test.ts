import { beforeAll, describe, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { installCustomResources } from './testing/install.ts';
import { COMPLETE_SPECS, manifest } from './testing/objects.ts';
import {
  PLURALS,
  type Plural,
  isRefused,
  type Schema,
  type SchemaPlace,
  places,
  schemaOf,
} from './testing/schemas.ts';

const cluster = useTestCluster();

beforeAll(async () => {
  await installCustomResources(cluster);
});

/** One way to break one bound of a schema, and what the API server says to it. */
interface Violation {
  readonly bound: string;
  readonly value: (valid: unknown) => unknown;
  readonly message: string;
}

const REMOVED = Symbol('removed');

/** A line break is in no character class that the schemas allow. */
const UNMATCHED = '\n';

function* violations(schema: Schema): Generator<Violation> {
  const { type, enum: values, maxLength, minLength, minItems, maxItems } = schema;
  if (type !== undefined) {
    yield {
      bound: 'type',
      value: () => (type === 'boolean' ? 'yes' : false),
      message: 'must be of type',
    };
  }
  if (values !== undefined) {
    yield { bound: 'enum', value: () => 'bogus', message: 'Unsupported value: "bogus"' };
  }
  if (schema.pattern !== undefined) {
    yield { bound: 'pattern', value: () => UNMATCHED, message: 'in body should match' };
  }
  if (maxLength !== undefined) {
    const value = (): string => 'a'.repeat(maxLength + 1);
    yield {
      bound: 'maxLength',
      value,
      message: `Too long: may not be more than ${maxLength} bytes`,
    };
  }
  if (minLength !== undefined) {
    const message = `should be at least ${minLength} chars long`;
    yield { bound: 'minLength', value: () => '', message };
  }
  if (minItems !== undefined) {
    const message = `should have at least ${minItems} items`;
    yield { bound: 'minItems', value: () => [], message };
  }
  if (maxItems !== undefined) {
    const value = (valid: unknown): unknown => Array(maxItems + 1).fill(first(valid));
    yield { bound: 'maxItems', value, message: `must have at most ${maxItems} items` };
  }
  if (schema['x-kubernetes-list-type'] === 'set' || schema['x-kubernetes-list-type'] === 'map') {
    const value = (valid: unknown): unknown => [first(valid), first(valid)];
    yield { bound: 'duplicates', value, message: 'Duplicate value' };
  }
  if (schema.minProperties !== undefined) {
    const message = `should have at least ${schema.minProperties} properties`;
    yield { bound: 'minProperties', value: () => ({}), message };
  }
  if (schema.maxProperties !== undefined) {
    const many = Array.from({ length: schema.maxProperties + 1 }, (_, index) => [`k${index}`, 'v']);
    const message = `must have at most ${schema.maxProperties} items`;
    yield { bound: 'maxProperties', value: () => Object.fromEntries(many), message };
  }
  for (const name of schema.required ?? []) {
    const value = (valid: unknown): unknown => ({ ...(valid as object), [name]: REMOVED });
    yield { bound: `required ${name}`, value, message: `${name}: Required value` };
  }
  if (type === 'object' && schema.properties !== undefined) {
    const value = (valid: unknown): unknown => ({ ...(valid as object), unheardOf: true });
    yield { bound: 'unknown field', value, message: 'unheardOf"' };
  }
}

interface Case {
  readonly plural: Plural;
  readonly place: string;
  readonly bound: string;
  readonly spec: unknown;
  readonly message: string;
}

const CASES = PLURALS.flatMap((plural) =>
  [...places(specSchema(plural))].flatMap((place) => casesOf(plural, place)),
);

describe('bounds of the custom resources', () => {
  test.each(CASES)('$plural $place: $bound', async ({ plural, spec, message }) => {
    const path = `/apis/meterfeed.io/v1alpha1/${plural}?dryRun=All&fieldValidation=Strict`;
    const { status, body } = await cluster.request('POST', path, manifest(plural, spec));
    expect(status).toBeGreaterThanOrEqual(400);
    expect(body['message']).toContain(message);
  });

  test.each(PLURALS)('%s: no field is without a description', (plural) => {
    const bare = [...places(schemaOf(plural))]
      .filter(({ path, schema }) => path[0] !== 'metadata' && schema.description === undefined)
      .map(({ path }) => path.join('.'));
    expect(bare).toEqual([]);
  });

  test.each(PLURALS)('%s: no string, list, map or number is without a bound', (plural) => {
    const boundless = [...places(schemaOf(plural))]
      .filter(({ schema }) => !isBounded(schema))
      .map(({ path }) => path.join('.'));
    expect(boundless).toEqual([]);
  });
});

function specSchema(plural: Plural): Schema {
  const spec = schemaOf(plural).properties?.['spec'];
  if (spec === undefined) throw new Error(`${plural}: spec: missing in the schema`);
  return spec;
}

function casesOf(plural: Plural, { path, schema }: SchemaPlace): readonly Case[] {
  if (isRefused(schema)) return [];
  const valid = COMPLETE_SPECS[plural].find((spec) => at(spec, path) !== undefined);
  if (valid === undefined) throw new Error(`${plural}: ${path.join('.')}: no example uses it`);
  return [...violations(schema)].map(({ bound, value, message }) => ({
    plural,
    place: ['spec', ...path].join('.'),
    bound,
    spec: replaced(valid, path, value),
    message,
  }));
}

function isBounded(schema: Schema): boolean {
  if (schema.type === 'string') return schema.enum !== undefined || schema.maxLength !== undefined;
  if (schema.type === 'array') return schema.maxItems !== undefined;
  if (schema.type === 'integer') return schema.minimum !== undefined;
  return schema.additionalProperties === undefined || schema.maxProperties !== undefined;
}

function first(value: unknown): unknown {
  return Object.values(value as object)[0];
}

/** The member of a list that has the rest of the path, or the first of a map; else the property. */
function step(value: unknown, path: readonly string[]): string | undefined {
  const [name] = path;
  if (name !== '*') return name;
  const keys = Object.keys(value as object);
  return keys.find(
    (key) => at((value as Record<string, unknown>)[key], path.slice(1)) !== undefined,
  );
}

function at(value: unknown, path: readonly string[]): unknown {
  if (path.length === 0 || typeof value !== 'object' || value === null) {
    return path.length === 0 ? value : undefined;
  }
  const key = step(value, path);
  return key === undefined ? undefined : at((value as Record<string, unknown>)[key], path.slice(1));
}

/**
 * A copy in which the value at `path` is what `change` makes of it; REMOVED properties are gone in
 * JSON.
 */
function replaced(
  value: unknown,
  path: readonly string[],
  change: (valid: unknown) => unknown,
): unknown {
  if (path.length === 0) return change(value);
  const key = step(value, path) ?? '';
  const inner = replaced((value as Record<string, unknown>)[key], path.slice(1), change);
  return Array.isArray(value)
    ? value.with(Number(key), inner)
    : { ...(value as object), [key]: inner };
}
