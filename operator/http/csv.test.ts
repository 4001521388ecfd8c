import { expect, test } from 'vitest';
import { testEvent } from '../ledger/testing/events.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { signedFromNanos } from '../model/decimal.ts';
import type { UsageEvent } from '../model/event.ts';
import { bookOf, flat, priceOf } from '../model/pricing/testing/price-books.ts';
import { csvLine } from './csv.ts';
import {
  API_TOKEN as token,
  quietDiscovery,
  startTestServer,
  type TestServer,
  testSettings,
  testTenant,
} from './testing/test-server.ts';

const METRIC = 'tenant_instance_hours';
const OCTOBER = 'from=2026-10-01&to=2026-11-01';
const FRENCH = 'separator=semicolon&decimal=comma&bom=true';

const used: UsageEvent = testEvent({
  tenant: 'acme',
  quantity: '12.5',
  windowStart: Date.UTC(2026, 9, 5),
});

async function serverOf(...events: readonly UsageEvent[]): Promise<TestServer> {
  const ledger = createMemoryLedger();
  await ledger.append({ events });
  const settings = { ...testSettings(), pricing: { books: [bookOf([priceOf(METRIC, flat(2))])] } };
  const discovery = quietDiscovery({ tenants: () => [testTenant('acme')] });
  return startTestServer({ ledger, views: { settings: () => settings, discovery } });
}

function nameOf({ headers }: { readonly headers: Headers }): string | undefined {
  return /filename="?([^";]*)/.exec(headers.get('content-disposition') ?? '')?.[1];
}

test.each([
  [`/api/v1/costs?${OCTOBER}&tenant=acme&format=csv`, 'costs_acme_2026-10-01_2026-10-31_EUR.csv'],
  [
    `/api/v1/usage?${OCTOBER}&metric=${METRIC}&format=csv`,
    `usage_${METRIC}_2026-10-01_2026-10-31.csv`,
  ],
  [`/api/v1/events?${OCTOBER}&format=csv`, 'events_2026-10-01_2026-10-31.csv'],
  [`/api/v1/events?${OCTOBER}&tenant=acme`, 'events_acme_2026-10-01_2026-10-31.ndjson'],
  [`/api/v1/gpus?${OCTOBER}&format=csv`, 'gpus_2026-10-01_2026-10-31.csv'],
  ['/api/v1/months/2026-10?tenant=acme&format=csv', 'month_acme_2026-10-01_2026-10-31.csv'],
  // The 21st is today.
  ['/api/v1/months/2026-11?format=csv', 'month_2026-11-01_2026-11-21.csv'],
  [
    `/api/v1/usage?${OCTOBER}&tenant=${encodeURIComponent('../a b;"c')}&format=csv`,
    'usage_..-a-b-c_2026-10-01_2026-10-31.csv',
  ],
])(
  'the file of %s does not say whose it is, of when, and in which currency',
  async (path, name) => {
    await using server = await serverOf(used);
    expect(nameOf(await server.call('GET', path, { token }))).toBe(name);
  },
);

test('a spreadsheet with decimal commas reads 12.5 hours as a date or as text', async () => {
  await using server = await serverOf(used);
  const csvOf = (path: string) =>
    server.call('GET', `${path}&format=csv&${FRENCH}`, { token }).then(({ text }) => text);
  expect(await csvOf(`/api/v1/costs?${OCTOBER}`)).toBe(
    `tenant;metric;unit;currency;quantity;unpriced;cost;events\r\nacme;${METRIC};hours;EUR;12,5;;25,00;1\r\n`,
  );
  const raw = await fetch(`http://127.0.0.1:${server.port}/api/v1/events?format=csv&${FRENCH}`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  expect([...new Uint8Array(await raw.arrayBuffer())].slice(0, 3)).toStrictEqual([
    0xef, 0xbb, 0xbf,
  ]);
  expect(await csvOf(`/api/v1/usage?${OCTOBER}`)).toContain(`acme;${METRIC};hours;12,5;1\r\n`);
  expect(await csvOf(`/api/v1/events?${OCTOBER}`)).toContain(`;acme;${METRIC};12,5;hours;`);
  expect(await csvOf('/api/v1/months/2026-10?')).toContain(`acme;${METRIC};hours;12,5;;;;;1\r\n`);
});

test('a correction below zero is text to a spreadsheet, which leaves it out of the sum', async () => {
  const less = { ...used, quantity: signedFromNanos(-2_500_000_000n) };
  await using server = await serverOf(less);
  for (const path of ['/api/v1/usage', '/api/v1/events', '/api/v1/costs']) {
    const { text } = await server.call('GET', `${path}?${OCTOBER}&format=csv`, { token });
    expect(text, path).toMatch(/,-2\.5,/);
  }
});

test.each([
  ['decimal=comma&format=csv', 'the same sign as the separator: decimal: "comma"'],
  ['separator=pipe&format=csv', 'unknown separator: "pipe": use comma or semicolon or tab'],
  ['bom=true', 'only CSV has it: bom: add format=csv, or leave it out'],
])('%s is ignored, or breaks the file', async (query, error) => {
  await using server = await serverOf(used);
  const { status, json } = await server.call('GET', `/api/v1/usage?${query}`, { token });
  expect([status, json]).toMatchObject([400, { error: expect.stringContaining(error) }]);
});

test.each([
  ['a;b', ';', '"a;b"'],
  ['x,=1+1', ';', `"x,'=1+1"`],
  ['x\t@SUM(A1)', ';', `"x\t'@SUM(A1)"`],
  ['1.5', ';', '1.5'],
  ['-2', ';', "'-2"],
])('the text %j between %j is run, cut or made a number', (text, separator, cell) => {
  const form = { separator, decimal: ',', bom: false };
  expect(csvLine([text, '3.5'], form, [false, true])).toBe(`${cell}${separator}3,5\r\n`);
});
