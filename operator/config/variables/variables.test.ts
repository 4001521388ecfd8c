import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { parseOrThrow } from '../parsers/parser.ts';
import { variables } from './variables.ts';

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
}

interface CustomResourceDefinition {
  readonly spec: {
    readonly versions: readonly [{ readonly schema: { readonly openAPIV3Schema: SchemaNode } }];
  };
}

test('a default is refused by its own parser', () => {
  const defaults = variables().flatMap(([, { parser, default: text }]) =>
    text === undefined ? [] : [{ parser, text }],
  );
  expect(defaults.length).toBeGreaterThan(30);
  for (const { parser, text } of defaults) expect(() => parseOrThrow(parser, text)).not.toThrow();
});

test('one name stands for two variables', () => {
  const names = variables().flatMap(([name, { aliases = [] }]) => [name, ...aliases]);
  expect(names.length).toBe(new Set(names).size);
});

test('the documentation names a test that does not exist', () => {
  const files = new Set(variables().map(([, variable]) => variable.test));
  const root = new URL('../../../', import.meta.url);
  expect([...files].filter((file) => !existsSync(new URL(file, root)))).toStrictEqual([]);
});

test('the documentation promises a field that no custom resource has', () => {
  const kinds = {
    BillingDestination: 'billingdestinations',
    TenantOverride: 'tenantoverrides',
    MeteringPolicy: 'meteringpolicies',
  };
  const schemas = new Map(
    Object.entries(kinds).map(([kind, file]) => {
      const path = new URL(`../../../crds/${file}.yaml`, import.meta.url);
      const crd = parse(readFileSync(path, 'utf8')) as CustomResourceDefinition;
      return [kind, crd.spec.versions[0].schema.openAPIV3Schema] as const;
    }),
  );
  function find(field: string): SchemaNode | undefined {
    const [kind = '', path = ''] = field.split(' ');
    let node = schemas.get(kind);
    for (const step of path.split('.')) node = node?.properties?.[step];
    return node;
  }
  const missing = variables()
    .flatMap(([, variable]) => variable.fields ?? [])
    .filter((field) => find(field) === undefined);
  expect(missing).toStrictEqual([]);

  const promised = variables().flatMap(([, variable]) => variable.fields ?? []);
  const policyFields = Object.keys(find('MeteringPolicy spec')?.properties ?? {});
  const untold = policyFields.filter((field) => !promised.includes(`MeteringPolicy spec.${field}`));
  expect(untold).toStrictEqual([]);
});
