import { readFile } from 'node:fs/promises';
import axe from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  API_TOKEN,
  INGEST_TOKEN,
  NOW,
  quietDiscovery,
  startTestServer,
  testTenant,
  type TestServer,
} from '../testing/test-server.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { launchBrowser, openPage, type PageOptions, type WatchedPage } from './testing/browser.ts';
import { createEstate, type DashboardEstate, HOSTILE, SHOWN_EVENT } from './testing/estate.ts';

let browser: Browser;
let estate: DashboardEstate;
let server: TestServer;

beforeAll(async () => {
  browser = await launchBrowser();
  estate = await createEstate();
  server = await startTestServer({
    ledger: estate.ledger,
    views: estate.views(() => server.settings),
  });
});

afterAll(async () => {
  await server.close();
  await browser.close();
});

const LAST_WINDOW = '2026-11-21T09:00:00Z';

/** Every page, and a text that shows that its data has arrived. */
const PAGES: readonly (readonly [hash: string, text: string])[] = [
  ['#/', 'Usage by tenant'],
  ['#/usage?by=sku&range=7d', 'Sums'],
  ['#/usage?range=custom&from=2026-11-01&to=2026-11-21', 'Sums'],
  ['#/gpus', 'By tenant and model'],
  ['#/gpus?range=1h', 'By tenant and model'],
  ['#/gpus?range=24h&tenant=acme', 'By tenant and model'],
  ['#/tenants', 'What they used'],
  ['#/tenants/acme', 'Billed as'],
  ['#/months/2026-11', 'Does the billing system agree'],
  ['#/months/2026-11?tenant=acme', 'By model and class'],
  ['#/gaps', 'Details'],
  [
    '#/sums?metric=tenant_gpu_hours&from=2026-11-21T08:00:00Z&to=2026-11-21T09:00:00Z',
    'GPU-hours in',
  ],
  ['#/docs/explanation/metering.md?at=windows', 'Lifetimes, not samples'],
  ['#/windows', 'backfilled'],
  [`#/windows/${LAST_WINDOW}`, 'Where GPU time went'],
  [`#/windows/${LAST_WINDOW}`, 'Private nodes, by GPU model'],
  ['#/destinations', 'archive'],
  ['#/destinations/archive', 'Dead letters'],
  ['#/destinations/archive', 'may be billed already: an earlier attempt had no answer'],
  ['#/destinations/archive', 'Invoices that differ from what was delivered'],
  ['#/destinations/archive', '4 prices differ from the price books'],
  ['#/destinations/closed', '401: the key is wrong'],
  ['#/enforcement', 'Set a state by hand'],
  [`#/events/${SHOWN_EVENT.id}`, 'What it is made of'],
  ['#/nowhere', 'No such page'],
];

async function visit(
  hash: string,
  text: string,
  options: PageOptions & { readonly at?: TestServer } = {},
): Promise<WatchedPage> {
  const { at = server, ...rest } = options;
  const watched = await openPage(browser, { token: API_TOKEN, ...rest });
  await watched.page.goto(`http://127.0.0.1:${at.port}/${hash}`);
  await watched.page.getByText(text).first().waitFor();
  await watched.settled();
  return watched;
}

const POLLS = [
  ['light', 360],
  ['light', 1280],
  ['dark', 1280],
] as const;

test.each(PAGES)(
  '%s: no stored script, no error, nothing beyond the edge, readable by everybody, wide or narrow, light or dark',
  async (hash, text) => {
    const { page, problems } = await visit(hash, text, { width: POLLS[0][1] });
    await page.evaluate(axe.source);
    for (const [colorScheme, width] of POLLS) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      const found = await page.evaluate(async () => {
        const { violations } = await (
          globalThis as typeof globalThis & { axe: typeof axe }
        ).axe.run();
        return violations.map(
          ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`,
        );
      });
      expect(found, `${colorScheme}, ${width} pixels wide`).toStrictEqual([]);
      const beyond = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
      expect(beyond, `${width} pixels wide`).toBe(false);
    }
    const foreign = 'main script, main img, main iframe, main [onerror], main [style*=url]';
    expect(await page.locator(foreign).count()).toBe(0);
    expect(problems).toStrictEqual([]);
    await page.context().close();
  },
);

test('hostile names are there to be read, as text (accident 37)', async () => {
  const { page } = await visit('#/tenants/acme', 'Billed as');
  expect(await page.getByText(HOSTILE[0]).count()).toBeGreaterThan(0);
  await page.context().close();
});

test('what a client pushed under a hostile name is text on every page that shows it (accident 37)', async () => {
  const windowEnd = Math.floor(NOW / 60_000) * 60_000 - 60_000;
  const events = HOSTILE.map((name, index) => ({
    id: `hostile-${index}`,
    tenant: name,
    metric: 'tokens_used',
    quantity: 3,
    sku: name,
    project: name,
    dimensions: { model: name },
    properties: { note: name },
    window_start: new Date(windowEnd - 60_000).toISOString(),
    window_end: new Date(windowEnd).toISOString(),
  }));
  // A name with characters that steer the direction of text is refused at the door.
  const pushed = await server.call('POST', '/api/v1/events', {
    token: INGEST_TOKEN,
    body: { events },
  });
  expect(pushed.json).toMatchObject({ accepted: expect.any(Number) });
  const { ids } = pushed.json as { readonly ids: readonly string[] };
  expect(ids.length).toBeGreaterThanOrEqual(4);
  for (const [hash, text] of [
    ['#/usage?metric=tokens_used&by=sku', 'Sums'],
    ['#/usage?metric=tokens_used&by=tenant', 'Sums'],
    ['#/usage?metric=tokens_used&by=model', 'Sums'],
    [`#/tenants/${encodeURIComponent(HOSTILE[0])}?metric=tokens_used`, 'Over time'],
    ['#/events/hostile-0', 'What it is made of'],
  ] as const) {
    const { page, problems } = await visit(hash, text);
    const cells = page.locator('main :is(th, td, dd, h1)');
    await cells.filter({ hasText: HOSTILE[0], visible: true }).first().waitFor();
    expect(await page.locator('main script, main img, main iframe, main [onerror]').count()).toBe(
      0,
    );
    expect(problems, hash).toStrictEqual([]);
    await page.context().close();
  }
});

test('a page that many look at does not read the whole ledger again and again (accident 11)', async () => {
  const { page, settled } = await visit('#/', 'Usage by tenant');
  const requested: string[] = [];
  page.on('request', (request) => requested.push(new URL(request.url()).pathname));
  await page.clock.runFor(120_000);
  await settled();
  expect(requested).not.toContain('/api/v1/ledger/verify');
  expect(requested).not.toContain('/api/v1/events');
  expect(requested).toContain('/api/v1/status');
  await page.context().close();
});

test('the ledger is checked when somebody requests it', async () => {
  const { page } = await visit('#/', 'Usage by tenant');
  await page.getByRole('button', { name: 'Check the ledger' }).click();
  await page.getByText(/Intact: \d+ events/).waitFor();
  await page.context().close();
});

test('without a token the page requires one, and a wrong one is refused in words', async () => {
  const { page, problems } = await openPage(browser, { expectedStatuses: [401] });
  await page.goto(`http://127.0.0.1:${server.port}/#/destinations`);
  await page.getByLabel('API token').fill('wrong');
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByText('The token was not accepted.').waitFor();
  await page.getByLabel('API token').fill(API_TOKEN);
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByText('archive').first().waitFor();
  const kept = await page.evaluate('[Object.keys(localStorage), document.cookie, location.href]');
  expect(JSON.stringify(kept)).not.toContain(API_TOKEN);
  const second = await page.context().newPage();
  await second.goto(`http://127.0.0.1:${server.port}/`);
  await second.getByLabel('API token').waitFor();
  expect(problems).toStrictEqual([]);
  await page.context().close();
});

test.each([
  ['where tokens are needed', true, 0],
  ['where reading is free', false, 1],
])(
  '%s, whoever has none sends requests that are refused, or sees the sign-in form',
  async (_, closed, queries) => {
    await using other: TestServer = await startTestServer(
      closed ? {} : { environment: { API_TOKEN: '', INGEST_TOKEN: '' } },
    );
    const { page, problems, settled } = await openPage(browser);
    const requested: string[] = [];
    page.on('request', (request) => requested.push(new URL(request.url()).pathname));
    await page.goto(`http://127.0.0.1:${other.port}/`);
    await page
      .getByText(closed ? 'API token' : 'Usage by tenant')
      .first()
      .waitFor();
    await settled();
    expect(requested.filter((path) => path === '/api/v1/status')).toHaveLength(queries);
    expect(problems).toStrictEqual([]);
    await page.context().close();
  },
);

test('a page comes uncompressed, or again and again', async () => {
  const at = `http://127.0.0.1:${server.port}/dashboard/style.css`;
  const first = await fetch(at);
  expect(first.headers.get('content-encoding')).toBe('gzip');
  expect(first.headers.get('vary')).toContain('Accept-Encoding');
  expect(await first.text()).toContain('--surface');
  const plain = await fetch(at, { headers: { 'Accept-Encoding': 'identity' } });
  expect(plain.headers.get('content-encoding')).toBeNull();
  const etag = first.headers.get('etag') ?? '';
  const again = await fetch(at, { headers: { 'If-None-Match': etag } });
  expect(again.status).toBe(304);
});

describe('dead letters', () => {
  const confirm = (page: Page, name: RegExp) =>
    page.getByRole('dialog').filter({ visible: true }).getByRole('button', { name }).click();

  test('are discarded only when they are chosen and it is confirmed', async () => {
    const { page } = await visit('#/destinations/archive', '422: unknown plan');
    expect(await page.getByRole('button', { name: 'Discard the chosen' }).isDisabled()).toBe(true);
    await page.getByRole('checkbox').first().check();
    await page.getByRole('button', { name: 'Discard 1' }).first().click();
    await confirm(page, /Cancel/);
    expect(estate.changes).toStrictEqual([]);
    await page.getByRole('button', { name: 'Discard 1' }).first().click();
    await confirm(page, /Discard 1/);
    await page.getByText('1 discarded.').waitFor();
    expect(estate.changes).toStrictEqual(['discard archive 1']);
    await page.context().close();
  });

  test('are all sent again after a confirmation, and the page says what became of them', async () => {
    const { page } = await visit('#/destinations/archive', '422: unknown plan');
    await page.getByRole('button', { name: 'Send all again' }).first().click();
    await confirm(page, /Send all again/);
    await page.getByText('None: everything was accepted.').waitFor();
    expect(estate.changes.at(-1)).toBe('replay archive all');
    await page.context().close();
  });
});

test('dead letters of an invoiced month are sent only by somebody who has read what becomes of them', async () => {
  const views = estate.views(() => server.settings);
  const { operations } = views.destinations ?? {};
  if (views.destinations === undefined || operations === undefined)
    throw new Error('no destinations');
  const requested: unknown[] = [];
  const destinations: typeof views.destinations = {
    ...views.destinations,
    operations: {
      ...operations,
      replay: async (name, ids, force) => {
        requested.push([name, ids?.length ?? 'all', force]);
        if (force) return { kind: 'replayed', replayed: 5, stillRejected: 0, pending: 0 };
        return { kind: 'wants-force', reason: `closed until 2026-11-01, and ${HOSTILE[0]}` };
      },
    },
  };
  await using at = await startTestServer({ views: { ...views, destinations } });
  const { page, problems } = await visit('#/destinations/archive', '422: unknown plan', {
    at,
    expectedStatuses: [409],
  });
  const dialog = page.getByRole('dialog').filter({ visible: true });
  const press = (name: string) => dialog.getByRole('button', { name }).click();
  await page.getByRole('button', { name: 'Send all again' }).first().click();
  await press('Send all again');
  await dialog.getByText('closed until 2026-11-01').waitFor();
  await press('Cancel');
  // Whoever thinks again is asked from the start.
  await page.getByRole('button', { name: 'Send all again' }).first().click();
  await dialog.getByText('Each keeps its id').waitFor();
  await press('Send all again');
  await dialog.getByRole('alert').getByText('closed until 2026-11-01').waitFor();
  await press('Send anyway');
  await page.getByText('5 delivered, 0 refused again, 0 in progress.').waitFor();
  expect(requested).toStrictEqual([
    ['archive', 'all', false],
    ['archive', 'all', false],
    ['archive', 'all', true],
  ]);
  expect(problems).toStrictEqual([]);
  await page.context().close();
});

test('a destination shows which plans are to change, when, what delays them, and what can still be saved', async () => {
  const { page } = await visit('#/destinations/archive', 'Changes of plan');
  const row = (...texts: string[]) =>
    texts.reduce((rows, hasText) => rows.filter({ hasText }), page.getByRole('row')).waitFor();
  await row('standard', 'gold', '2026-11-21', 'failed at the last attempt');
  await row(HOSTILE[1], HOSTILE[2], 'scheduled');
  await row('CPU', 'gold', '7.500', '2026-11-21');
  await page.getByText('2 tenants, once the last usage is there').waitFor();
  await page.getByRole('link', { name: 'Explain' }).first().waitFor();
  await page.context().close();
});

test('a billing state is set and cleared by hand after a confirmation', async () => {
  const { page } = await visit('#/enforcement', 'Set a state by hand');
  const confirm = (name: string) =>
    page.getByRole('dialog').filter({ visible: true }).getByRole('button', { name }).click();
  await page.getByRole('combobox', { name: 'Tenant' }).selectOption('acme');
  await page.getByRole('combobox', { name: 'State' }).selectOption('suspended');
  await page.getByRole('button', { name: 'Set the state' }).first().click();
  await confirm('Set the state');
  await page.getByText(`Acme ${HOSTILE[0]} is suspended.`).waitFor();
  await page.getByRole('button', { name: 'Clear' }).first().click();
  await confirm('Clear');
  await page.getByText('active', { exact: true }).first().waitFor();
  expect(estate.changes.slice(-2)).toStrictEqual(['set acme suspended', 'clear acme']);
  await page.context().close();
});

test('downloads carry the exact figures and the token', async () => {
  const { page } = await visit('#/usage?by=sku', 'Sums');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Events as NDJSON' }).click(),
  ]);
  const text = await readFile(await download.path(), 'utf8');
  expect(text).toContain(SHOWN_EVENT.id);
  await page.context().close();
});

test('a destination that cannot start is missing, and the others are counted as all', async () => {
  const message = 'spec.lago.apiKeySecretRef: no such Secret: "billing-lago"';
  const problem = { reason: 'SecretNotFound', message, inForce: false };
  const views = estate.views(() => server.settings);
  const [well] = views.destinations?.list() ?? [];
  if (views.destinations === undefined || well === undefined) throw new Error('no destination');
  const lost = {
    ...well,
    name: 'lost',
    ready: false,
    bootstrapped: false,
    blocked: message,
    problem,
  };
  const destinations = { ...views.destinations, list: () => [well, lost] };
  await using at = await startTestServer({ views: { ...views, destinations } });
  const { page } = await visit('#/', '1 of 2', { at });
  await page.getByRole('link', { name: 'lost' }).click();
  await page.getByText('cannot start').waitFor();
  await page.getByText(message).first().waitFor();
  await page.context().close();
});

test('usage pushed under a mistyped name is shown, and given to the tenant that was meant', async () => {
  const ledger = createMemoryLedger();
  await using at: TestServer = await startTestServer({
    ledger,
    environment: { 'spec.ingest.unknownTenants': 'hold' },
    views: { discovery: quietDiscovery({ tenants: () => [testTenant('acme')] }) },
  });
  const window = { window_start: '2026-11-21T08:00:00Z', window_end: '2026-11-21T08:01:00Z' };
  const event = { id: 'typo-1', tenant: 'acmee', metric: 'tokens_used', quantity: 3, ...window };
  await at.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body: { events: [event] } });
  const { page } = await visit('#/', 'Usage of 1 unknown tenant is held', { at });
  await page.getByRole('link', { name: 'Release or rename it' }).click();
  await page.getByRole('combobox', { name: 'Correct tenant' }).selectOption('acme');
  await page.getByRole('button', { name: 'Rename' }).first().click();
  const dialog = page.getByRole('dialog').filter({ visible: true });
  await dialog.getByRole('button', { name: 'Rename' }).click();
  await page.getByText('Held usage: pushed').waitFor({ state: 'detached' });
  expect(await ledger.find('typo-1')).toMatchObject({ tenant: 'acme' });
  await page.context().close();
});

test('an operator that is gone is shown as gone, and found again when it is back', async () => {
  const first = await startTestServer();
  const { page } = await visit('#/', 'No destination is configured', { at: first });
  await first.close();
  await page.getByRole('link', { name: 'Windows', exact: true }).click();
  await page.getByText('No connection to the operator').waitFor();
  const environment = { LISTEN_ADDR: `127.0.0.1:${first.port}` };
  await using again = await startTestServer({ environment });
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('No window has closed yet').waitFor();
  expect(again.port).toBe(first.port);
  await page.context().close();
});

test('empty pages say what to do', async () => {
  await using lonely = await startTestServer();
  const at = `http://127.0.0.1:${lonely.port}`;
  const { page } = await openPage(browser, { token: API_TOKEN });
  for (const [hash, text] of [
    ['#/', 'nothing was metered yet'],
    ['#/tenants', 'No tenant cluster was found'],
    ['#/windows', 'No window has closed yet'],
    ['#/destinations', 'apply a BillingDestination'],
    ['#/enforcement', 'every tenant is active'],
    ['#/events/gone', 'no such event'],
    ['#/tenants/gone', 'exists now'],
    ['#/destinations/gone', 'No destination of this name'],
    ['#/windows/2020-01-01T00:00:00Z', 'no report of this window'],
  ] as const) {
    await page.goto(`${at}/${hash}`);
    await page.getByText(text).first().waitFor();
  }
  await page.context().close();
});

test('the keyboard alone reaches the content and every page', async () => {
  const { page } = await visit('#/', 'Usage by tenant');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  expect(await page.evaluate('document.activeElement.id')).toBe('content');
  await page.getByRole('link', { name: 'Windows', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Windows' }).waitFor();
  expect(await page.evaluate('document.activeElement.tagName')).toBe('H1');
  await page.context().close();
});
