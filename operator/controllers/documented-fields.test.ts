import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Setting } from '../settings/table/setting.ts';
import { policyField, settings, TABLE } from '../settings/table/table.ts';
import { DESTINATIONS } from '../destinations/registry.ts';
import { isRefused, PLURALS, places, schemaOf } from './testing/schemas.ts';

const KINDS = {
  BillingDestination: 0,
  TenantOverride: 1,
  MeteringPolicy: 2,
  PriceBook: 3,
} as const;

test('the documentation names no field that the custom resources do not have', () => {
  const existing = new Set(
    Object.entries(KINDS).flatMap(([kind, index]) =>
      [...places(schemaOf(PLURALS[index]))].map(({ path }) => `${kind} ${path.join('.')}`),
    ),
  );
  const documented = settings(DESTINATIONS).flatMap(([, setting]) => setting.fields ?? []);
  expect(documented.length).toBeGreaterThan(10);
  expect(documented.filter((field) => !existing.has(field))).toEqual([]);
});

test('a field of the MeteringPolicy is described with another variable or default than holds', () => {
  const schemas = new Map(
    [...places(schemaOf('meteringpolicies'))].map(({ path, schema }) => [path.join('.'), schema]),
  );
  const described = Object.values<Readonly<Record<string, Setting>>>(TABLE)
    .flatMap((part) => Object.values(part))
    .flatMap((setting) => {
      const field = policyField(setting);
      const description = schemas.get(field ?? '')?.description?.replaceAll(/\s+/g, ' ') ?? '';
      return field === undefined ? [] : [{ field, description, stated: statedOf(setting) }];
    });
  expect(described.length).toBeGreaterThan(40);
  const wrong = described.filter(
    ({ description, stated }) => !stated.every((text) => description.includes(text)),
  );
  expect(wrong).toEqual([]);
});

/** What the description of a field has to hold. */
function statedOf({ variable, default: text, otherwise }: Setting): readonly string[] {
  const by = variable === undefined ? 'By' : `Environment variable ${variable}, by`;
  if (text !== undefined && text !== 'none' && otherwise === undefined) {
    return [`${by} default ${text.replaceAll(',', ' and ')}.`];
  }
  return variable === undefined ? [] : [`nvironment variable ${variable}`];
}

/** What no environment variable says has a page of its own. */
const PAGES: Readonly<Record<string, string>> = {
  defaultBudget: 'docs/how-to/budgets.md',
  portal: 'docs/how-to/portal.md',
  focus: 'docs/reference/focus.md',
};

test('no setting of the MeteringPolicy is left out of the documentation', () => {
  const documented = settings(DESTINATIONS).flatMap(([, setting]) => setting.fields ?? []);
  const isDocumented = (place: string): boolean =>
    documented.some((field) => `${place}.`.startsWith(`${field}.`));
  const fields = [...places(schemaOf('meteringpolicies'))]
    .filter(({ path: [first], schema }) => first === 'spec' && schema.properties === undefined)
    .filter(({ schema }) => !isRefused(schema))
    .map(({ path }) => path);
  expect(fields.length).toBeGreaterThan(40);
  const undocumented = fields.filter(([, setting = '', ...below]) => {
    const page = PAGES[setting] ?? PAGES[`${setting}.${below[0]}`];
    if (page === undefined)
      return !isDocumented(`MeteringPolicy ${['spec', setting, ...below].join('.')}`);
    const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');
    return ![setting, ...below].every((field) => text.includes(field));
  });
  expect(undocumented).toEqual([]);
});
