import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { DESTINATIONS } from './registry.ts';

const OPERATOR = join(import.meta.dirname, '..');

/** Types whose names are common words and no billing system's. */
const COMMON = ['webhook', 'noop'];

/** Metronome links its customers to Stripe's, with the key of the Stripe destination. */
const LINKED: Readonly<Record<string, readonly string[]>> = {
  metronome: ['stripe'],
  stripe: ['metronome'],
};

interface Vendor {
  readonly type: string;
  readonly name: RegExp;
}

const vendors: readonly Vendor[] = DESTINATIONS.filter(({ type }) => !COMMON.includes(type)).map(
  ({ type, spellings }) => {
    // `BILLING_CURRENCY` is nobody's name: no letter follows a neutral one.
    const names = [type, ...spellings].map((name) => name.replace(/_(\w)$/, '[-_]?$1(?![a-z])'));
    return { type, name: new RegExp(names.join('|'), 'i') };
  },
);

const production = globSync('**/*.{ts,js,css,html}', { cwd: OPERATOR }).filter(
  (file) =>
    !file.endsWith('.test.ts') &&
    !file.endsWith('.generated.ts') &&
    !/(^|\/)(testing|vendor|node_modules)\//.test(file) &&
    file !== 'destinations/registry.ts',
);

/** Returns the lines of a file outside its vendor's folder that name a billing system. */
function named(file: string, text: string): readonly string[] {
  const [, folder = ''] = /^destinations\/([^/]+)\//.exec(file) ?? [];
  const foreign = vendors.filter(
    ({ type }) => type !== folder && LINKED[folder]?.includes(type) !== true,
  );
  return [file, ...text.split('\n')]
    .filter((line) => foreign.some(({ name }) => name.test(line)))
    .map((line) => `${file}: ${line.trim()}`);
}

test('a billing system is named in its own folder and in the registry, nowhere else', () => {
  expect(vendors.map(({ type }) => type)).toEqual(
    expect.arrayContaining(['lago', 'metronome', 'stripe']),
  );
  expect(production.length).toBeGreaterThan(300);
  const found = production.flatMap((file) =>
    named(file, readFileSync(join(OPERATOR, file), 'utf8')),
  );
  expect(found).toStrictEqual([]);
});

test('a name that slips in is noticed, however it is written', () => {
  for (const text of [
    'lago',
    'createStripe',
    'METRONOME_URL',
    'billing_a',
    'BILLING_B',
    'billingC',
    'api.billing-a.invalid',
  ]) {
    expect(named('settings/settings.ts', `const x = '${text}';`)).toHaveLength(1);
    expect(named('destinations/webhook/send.ts', `// ${text}`)).toHaveLength(1);
  }
  expect(named('http/stripe-page.ts', '')).toHaveLength(1);
  expect(named('destinations/lago/client.ts', 'the API of Lago, billing_c')).toHaveLength(0);
  expect(named('destinations/lago/client.ts', 'as Stripe has it')).toHaveLength(1);
  expect(named('destinations/metronome/link.ts', 'the Stripe customer')).toHaveLength(0);
  expect(named('destinations/metronome/link.ts', 'as Lago has it')).toHaveLength(1);
});
