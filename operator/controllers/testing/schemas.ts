import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

/** The part of a structural schema that the tests look at. */
export interface Schema {
  readonly description?: string;
  readonly type?: string;
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly minimum?: number;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map';
  readonly 'x-kubernetes-validations'?: readonly {
    readonly rule: string;
    readonly message: string;
  }[];
}

export const CRD_DIRECTORY = fileURLToPath(new URL('../../../crds', import.meta.url));

export const PLURALS = [
  'billingdestinations',
  'tenantoverrides',
  'meteringpolicies',
  'pricebooks',
] as const;

export type Plural = (typeof PLURALS)[number];

/** The schema of a custom resource as it stands in crds/. */
export function schemaOf(plural: Plural): Schema {
  const crd = parse(readFileSync(`${CRD_DIRECTORY}/${plural}.yaml`, 'utf8')) as {
    spec: { versions: [{ schema: { openAPIV3Schema: Schema } }] };
  };
  return crd.spec.versions[0].schema.openAPIV3Schema;
}

export interface SchemaPlace {
  /** Property names, `*` for an item of a list or a value of a map. */
  readonly path: readonly string[];
  readonly schema: Schema;
}

/** Whether a field is removed: its schema refuses any value. */
export function isRefused(schema: Schema): boolean {
  return schema['x-kubernetes-validations']?.some(({ rule }) => rule === 'false') === true;
}

/** A schema and all schemas within it, except those within removed fields. */
export function* places(schema: Schema, path: readonly string[] = []): Generator<SchemaPlace> {
  yield { path, schema };
  if (isRefused(schema)) return;
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    yield* places(property, [...path, name]);
  }
  const inner = schema.items ?? schema.additionalProperties;
  if (inner !== undefined) yield* places(inner, [...path, '*']);
}
