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

test('no setting of the MeteringPolicy is left out of the documentation', () => {
  const documented = variables(DESTINATIONS).flatMap(([, variable]) => variable.fields ?? []);
  const isDocumented = (place: string): boolean =>
    documented.some((field) => `${place}.`.startsWith(`${field}.`));
  const fields = [...places(schemaOf('meteringpolicies'))]
    .filter(({ path: [first], schema }) => first === 'spec' && schema.properties === undefined)
    .map(({ path }) => `MeteringPolicy ${path.join('.')}`);
  expect(fields.length).toBeGreaterThan(40);
  expect(fields.filter((field) => !isDocumented(field))).toEqual([]);
});
