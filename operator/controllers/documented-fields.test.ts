import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { variables } from '../config/variables/variables.ts';
import { DESTINATIONS } from '../destinations/registry.ts';
import { PLURALS, places, schemaOf } from './testing/schemas.ts';

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
  const documented = variables(DESTINATIONS).flatMap(([, variable]) => variable.fields ?? []);
  expect(documented.length).toBeGreaterThan(10);
  expect(documented.filter((field) => !existing.has(field))).toEqual([]);
});

/** What no environment variable says has a page of its own. */
const PAGES: Readonly<Record<string, string>> = {
  defaultBudget: 'docs/budgets.md',
  portal: 'docs/portal.md',
  'enforcement.neverSuspend': 'docs/budgets.md',
};

test('no setting of the MeteringPolicy is left out of the documentation', () => {
  const documented = variables(DESTINATIONS).flatMap(([, variable]) => variable.fields ?? []);
  const isDocumented = (place: string): boolean =>
    documented.some((field) => `${place}.`.startsWith(`${field}.`));
  const fields = [...places(schemaOf('meteringpolicies'))]
    .filter(({ path: [first], schema }) => first === 'spec' && schema.properties === undefined)
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
