import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { parseOrThrow } from '../parsers/parser.ts';
import { variables } from './variables.ts';

type Entry = ReturnType<typeof variables>[number];

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

test('the documentation names a test that knows nothing of the variable, or only that it is parsed', () => {
  const root = new URL('../../../', import.meta.url);
  const camelCase = (name: string) =>
    name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  const knows = ([name, { aliases = [], fields = [], test: file }]: Entry): boolean => {
    const source = readFileSync(new URL(file, root), 'utf8');
    const settings = fields.map((field) => field.split('.').at(-1) ?? field);
    const words = new RegExp(
      `\\b(${[name, ...aliases, camelCase(name), ...settings].join('|')})\\b`,
    );
    return words.test(source) && !file.endsWith('/load-environment.test.ts');
  };
  expect(
    variables()
      .filter((entry) => !knows(entry))
      .map(([name]) => name),
  ).toStrictEqual([]);
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
