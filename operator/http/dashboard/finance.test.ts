import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { API_TOKEN, startTestServer, type TestServer } from '../testing/test-server.ts';
import { launchBrowser, openPage, type PageOptions } from './testing/browser.ts';
import { createShowcase, SHOWCASE_EVENT } from './testing/showcase.ts';

let browser: Browser;
let server: TestServer;
let usageDirectory: string;

beforeAll(async () => {
  browser = await launchBrowser();
  const showcase = await createShowcase();
  usageDirectory = await mkdtemp(join(tmpdir(), 'finance-'));
  server = await startTestServer({
    usageDirectory,
    ledger: showcase.ledger,
    views: showcase.views(() => server.settings),
  });
});

afterAll(async () => {
  await server.close();
  await browser.close();
  await rm(usageDirectory, { recursive: true });
});

/** What a reader sees: lists that are closed hold the same names. */
function seen(page: Page, text: RegExp) {
  return page.getByText(text).filter({ visible: true }).first();
}

async function open(hash: string, options: PageOptions = {}): Promise<Page> {
  const { page } = await openPage(browser, { token: API_TOKEN, ...options });
  await page.goto(`http://127.0.0.1:${server.port}/${hash}`);
  return page;
}

describe('who reads a bill', () => {
  test('finds last month of a tenant by model in three clicks, and is led from there to why', async () => {
    const page = await open('#/');
    await page.getByRole('link', { name: 'Months', exact: true }).click();
    await page.getByRole('link', { name: '‹ October 2026' }).click();
    await page.getByRole('link', { name: 'Acme Research', exact: true }).click();
    const model = page.getByRole('row', { name: /GPU hours on NVIDIA-H100-80GB-HBM3 / });
    // Then: its days, the hours of one day, what one hour is made of, and why.
    await model.getByRole('link').click();
    await page.getByRole('link', { name: 'Mon, Oct 19, 2026' }).click();
    await page.getByRole('link', { name: '2026-10-19 14:00' }).click();
    await page.getByRole('link', { name: /^Why [\d.]+\?$/ }).click();
    await page.getByRole('heading', { name: 'Why this number' }).waitFor();
    await page.context().close();
  });

  test('sees each sum of the way down come to the one above it', async () => {
    const of = 'metric=tenant_gpu_hours&tenant=globex';
    const page = await open(`#/sums?${of}&from=2026-11-18T00:00:00Z&to=2026-11-19T00:00:00Z`);
    const heading = page.getByRole('heading', { level: 2 }).first();
    await page.getByText('GPU-hours in 24 events').waitFor();
    const total = Number((await heading.textContent())?.split(' ')[0]);
    const cells = await page.locator('td:nth-child(2)').allTextContents();
    const sum = cells.reduce((all, text) => all + Number(text), 0);
    expect(cells).toHaveLength(24);
    expect(sum).toBeCloseTo(total, 1);
    await page.context().close();
  });

  test('sees whether the billing system agrees with a month, and for whom and by how much it does not', async () => {
    const page = await open('#/months/2026-11');
    await page.getByRole('button', { name: 'Compare now' }).click();
    await page.getByText('does not agree').waitFor();
    await page.getByRole('row', { name: /Globex GPU hours [\d\s.]+ 0.000 −[\d\s.]+/ }).waitFor();
    await page.getByRole('heading', { name: 'lago agrees' }).waitFor();
    await page.context().close();
  });

  test('does not read that a month grew when the one before was not measured', async () => {
    const page = await open('#/months/2026-10');
    await page.getByText('Metering began on 2026-10-03').waitFor();
    await page
      .getByRole('row', { name: /^GPU hours .*day by day before metering began unknown unknown$/ })
      .waitFor();
    await page.getByText(/^Usage before 2026-10-03 .*is unknown: metering began then/).waitFor();
    await page.getByText('No gap after that is known.').waitFor();
    await page.context().close();
  });

  test.each([
    '#/',
    '#/months/2026-11',
    '#/usage',
    '#/usage?by=tenant_cluster',
    '#/usage?by=source',
    '#/tenants',
    '#/tenants/acme-research',
    '#/gaps?range=month',
    '#/windows/2026-11-21T09:00:00Z',
    '#/destinations/data-lake',
    '#/sums?metric=tenant_gpu_hours&tenant=acme-research&cluster=tenant-acme-research-main&from=2026-11-20T14:00:00Z&to=2026-11-20T15:00:00Z',
    `#/events/${SHOWCASE_EVENT}`,
  ])('meets names on %s, not codes: of metrics, of tenants, with units once', async (hash) => {
    const page = await open(hash);
    await seen(page, /Acme Research|Hooli|measured here/).waitFor();
    await page.waitForLoadState('networkidle');
    const text = await page.locator('main').textContent();
    // A tenant's id stands where it is copied from, on its own page.
    const readable = text?.replace('acme-research Copy tenant id', '');
    expect(readable).not.toMatch(
      /tenant_\w+|tenant-\w+-main|svc1_|acme-research|hours \(|undefined|NaN/,
    );
    const labels = await page
      .locator('main [aria-label]')
      .evaluateAll((all) => all.map((one) => String(one.ariaLabel)));
    expect(labels.join()).not.toMatch(/tenant_\w+|tenant-\w+-main|svc1_/);
    await page.context().close();
  });
});

describe('a chart', () => {
  test('draws what was not measured as not measured, and the hour that runs as running', async () => {
    const page = await open('#/usage?range=24h');
    await page.getByText('not measured', { exact: true }).waitFor();
    await page.getByText('still running', { exact: true }).waitFor();
    await page.getByText('The same figures as a table').click();
    await page.getByRole('row', { name: /2026-11-20 21:00 \(not all measured\)/ }).waitFor();
    await page.getByRole('row', { name: /2026-11-21 09:00 \(still running/ }).waitFor();
    await page.context().close();
  });

  test('keeps the colour of a series when another becomes the largest', async () => {
    const page = await open('#/usage?by=sku');
    const colours = async (): Promise<ReadonlyMap<string | null, string>> => {
      await page.locator('.legend li').first().waitFor();
      const items = await page.locator('.legend li').all();
      return new Map(
        await Promise.all(
          items.map(async (item) => {
            const swatch = item.locator('.swatch');
            const colour = await swatch.evaluate('(e) => e.style.background');
            return [await item.textContent(), String(colour)] as const;
          }),
        ),
      );
    };
    const before = await colours();
    await page.goto(`http://127.0.0.1:${server.port}/#/usage?by=sku&tenant=acme-research`);
    const mig = 'NVIDIA-H100-80GB-HBM3-mig-3g.40gb';
    await page.getByText('980.').first().waitFor();
    expect((await colours()).get(mig)).toBe(before.get(mig));
    await page.context().close();
  });

  test('gives a model the colour of another after a chart of tenants, and "in use" that of what is wrong', async () => {
    const coloursOf = async (page: Page): Promise<readonly string[]> => {
      await page.locator('.legend li').first().waitFor();
      return page
        .locator('.legend li')
        .evaluateAll((all) =>
          all.map((one) => `${one.textContent} ${one.querySelector('span')?.style.background}`),
        );
    };
    const alone = await open('#/usage?by=sku&range=7d');
    const models = await coloursOf(alone);
    await alone.context().close();
    const page = await open('#/usage?by=tenant&range=7d');
    await coloursOf(page);
    await page.goto(`http://127.0.0.1:${server.port}/#/gpus?range=7d`);
    await page.getByText('In use').first().waitFor();
    await page.locator('.legend').getByText('In use').waitFor();
    expect(await coloursOf(page)).toContain('In use rgb(44, 156, 105)');
    await page.goto(`http://127.0.0.1:${server.port}/#/usage?by=sku&range=7d`);
    await page.locator('.legend').getByText('H100').first().waitFor();
    expect(await coloursOf(page)).toStrictEqual(models);
    await page.context().close();
  });

  test('shows nothing of five days of which only days are kept', async () => {
    const page = await open('#/usage?range=custom&from=2026-10-02&to=2026-10-06');
    await page.locator('.legend').getByText('Globex').waitFor();
    await page.locator('.legend').getByText('before metering began').waitFor();
    await page.getByText('The same figures as a table').click();
    await page.getByRole('row', { name: /2026-10-04 00:00 [\d\s.]+$/ }).waitFor();
    await page.context().close();
  });

  test('shows the values under the pointer', async () => {
    const page = await open('#/usage?range=24h&by=tenant');
    await page.locator('.u-over').hover({ position: { x: 100, y: 50 } });
    const tooltip = page.locator('.tooltip');
    await tooltip.getByText('Acme Research').waitFor();
    expect(await tooltip.textContent()).toMatch(/2026-11-2\d \d\d:00 UTC.*Globex\d+\.\d{3}/);
    await page.context().close();
  });
});

describe('a reader at 390 px', () => {
  const width = 390;

  test.each(['#/', '#/tenants', '#/months/2026-11', '#/destinations/data-lake'])(
    'sees no cut table on %s: each row is a card that names its values',
    async (hash) => {
      const page = await open(hash, { width });
      await seen(page, /Acme Research/).waitFor();
      const cut = await page.evaluate(
        `[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.ariaLabel)`,
      );
      expect(cut).toStrictEqual([]);
      await page.context().close();
    },
  );

  test('reaches every page by a menu that fits', async () => {
    const page = await open('#/', { width });
    expect(await page.getByRole('link', { name: 'Enforcement' }).isVisible()).toBe(false);
    await page.getByRole('button', { name: 'Menu' }).click();
    const last = await page.getByRole('link', { name: 'Enforcement' }).boundingBox();
    expect((last?.x ?? 0) + (last?.width ?? 0)).toBeLessThanOrEqual(width);
    await page.getByRole('link', { name: 'Gaps', exact: true }).click();
    await page.getByRole('heading', { name: 'What was not measured' }).waitFor();
    expect(await page.getByRole('link', { name: 'Enforcement' }).isVisible()).toBe(false);
    await page.context().close();
  });

  test('sees dead letters by reason, with the tenants, not 27 times', async () => {
    const page = await open('#/destinations/data-lake', { width });
    await page.getByText('20 events of').waitFor();
    expect(await page.locator('.reason').count()).toBe(2);
    const text = (await page.locator('main').textContent()) ?? '';
    expect(text).toContain('Acme Research (');
    expect(text).not.toMatch(/Send 0|Discard 0|100 of 27|everything was accepted/);
    await page.context().close();
  });
});

test('a month reads as agreed although every price is another', async () => {
  const showcase = await createShowcase();
  const views = showcase.views(() => other.settings);
  const [first] = views.destinations?.list() ?? [];
  if (views.destinations === undefined || first === undefined) throw new Error('no destination');
  const example = 'plan "standard": tenant_gpu_hours: 2.9 there, 2.4 by "h100"';
  const list = () => [{ ...first, prices: { differing: 1, examples: [example] } }];
  const summaryOf = () => 'PricesDiffer: other prices than the PriceBooks';
  await using other: TestServer = await startTestServer({
    ledger: showcase.ledger,
    views: { ...views, destinations: { ...views.destinations, list, summaryOf } },
  });
  const { page } = await openPage(browser, { token: API_TOKEN });
  const at = `http://127.0.0.1:${other.port}`;
  await page.goto(`${at}/#/months/2026-11`);
  await page.getByRole('button', { name: 'Compare now' }).click();
  await page.getByRole('heading', { name: 'lago sums agree, prices differ' }).waitFor();
  await page.getByText(example).waitFor();
  await page.goto(`${at}/#/destinations/lago`);
  await page.getByText('1 price differs from the price books').waitFor();
  await page.getByText('prices differ', { exact: true }).waitFor();
  await page.getByText(summaryOf()).waitFor();
  await page.context().close();
});

test('where nothing was sent, the page does not say that everything was accepted', async () => {
  const showcase = await createShowcase();
  const views = showcase.views(() => quiet.settings);
  const [first] = views.destinations?.list() ?? [];
  if (views.destinations === undefined || first === undefined) throw new Error('no destination');
  const list = () => [{ ...first, delivered: 0 }];
  await using quiet: TestServer = await startTestServer({
    views: { ...views, destinations: { ...views.destinations, list } },
  });
  const { page } = await openPage(browser, { token: API_TOKEN });
  await page.goto(`http://127.0.0.1:${quiet.port}/#/destinations/lago`);
  await page.getByText('None: nothing was sent yet').waitFor();
  expect(await page.getByText('everything was accepted').count()).toBe(0);
  await page.context().close();
});

test('the rate that is left is not shown', async () => {
  const showcase = await createShowcase();
  const views = showcase.views(() => quiet.settings);
  const [first] = views.destinations?.list() ?? [];
  if (views.destinations === undefined || first === undefined) throw new Error('no destination');
  const rate = { allowed: 20, needed: 3.4 };
  const list = () => [{ ...first, rate }];
  await using quiet: TestServer = await startTestServer({
    views: { ...views, destinations: { ...views.destinations, list } },
  });
  const { page } = await openPage(browser, { token: API_TOKEN });
  await page.goto(`http://127.0.0.1:${quiet.port}/#/destinations/${first.name}`);
  await page.getByText('About 3.4 of the 20 events a second').waitFor();
  await page.getByText('16.6 are left').waitFor();
  await page.context().close();
});

test.each([
  ['no destination', [], 'usage is kept, not delivered'],
  ['one that was never sent anything', [{ delivered: 0, lagEvents: 12 }], 'nothing was sent yet'],
  ['all suspended', [{ suspended: true, ready: false, deadLetters: 27 }], 'refused, so not billed'],
] as const)('with %s no count and no button says nonsense', async (_, changes, reported) => {
  const showcase = await createShowcase();
  const views = showcase.views(() => quiet.settings);
  const [, first] = views.destinations?.list() ?? [];
  if (views.destinations === undefined || first === undefined) throw new Error('no destination');
  const list = () => changes.map((change) => ({ ...first, deadLetters: 0, ...change }));
  const letters = list().some(({ deadLetters }) => deadLetters > 0);
  const { operations: stored } = views.destinations;
  if (stored === undefined) throw new Error('no operations');
  const deadLetters: typeof stored.deadLetters = async (name, after, limit) =>
    letters ? stored.deadLetters(name, after, limit) : { deadLetters: [] };
  await using quiet: TestServer = await startTestServer({
    views: {
      ...views,
      destinations: { ...views.destinations, list, operations: { ...stored, deadLetters } },
    },
  });
  const { page } = await openPage(browser, { token: API_TOKEN });
  const nonsense = /Send 0|Discard 0|\b0 of 0\b|100 of 27|recorded never|everything was accepted/;
  const at = `http://127.0.0.1:${quiet.port}`;
  await page.goto(`${at}/#/`);
  await page.getByText(reported).waitFor();
  expect(await page.locator('main').textContent()).not.toMatch(nonsense);
  await page.goto(`${at}/#/destinations/data-lake`);
  const text =
    changes.length === 0
      ? 'No destination of this name'
      : letters
        ? '20 events of'
        : 'None: nothing was sent yet';
  await page.getByText(text).waitFor();
  expect(await page.locator('main').textContent()).not.toMatch(nonsense);
  const offered = page.getByRole('button', { name: 'Send all again', disabled: false });
  expect(await offered.count()).toBe(0);
  await page.context().close();
});

test('the rule behind a number is a link that opens where it is explained', async () => {
  const page = await open('#/docs/explanation/gpus.md?at=gpu-quantity');
  await page.getByRole('heading', { name: 'GPU quantity', exact: true }).waitFor();
  expect(await page.evaluate('document.activeElement.id')).toBe('gpu-quantity');
  await page.getByRole('link', { name: 'All pages' }).click();
  await page.getByRole('link', { name: 'Metering' }).first().waitFor();
  await page.context().close();
});
