import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { PriceBook } from '../../model/price-book.ts';
import { bookOf, flat, priceOf } from '../../model/pricing/testing/price-books.ts';
import {
  API_TOKEN,
  startTestServer,
  type TestServer,
  testSettings,
} from '../testing/test-server.ts';
import { launchBrowser, openPage, type PageOptions } from './testing/browser.ts';
import { createShowcase } from './testing/showcase.ts';

let browser: Browser;
let priced: TestServer;
let unpriced: TestServer;

interface ModelCost {
  readonly model: string;
  readonly gpu_cost: number;
  readonly gpu_cost_per_million: number;
  readonly margin?: number;
}

/** GPUs and uptime have a price, CPU and memory have none. */
const book = bookOf([
  priceOf('tenant_gpu_hours', flat(2.4)),
  priceOf('tenant_instance_hours', flat(0.05)),
]);

beforeAll(async () => {
  browser = await launchBrowser();
  [priced, unpriced] = await Promise.all([start([book]), start([])]);
});

afterAll(async () => {
  await priced.close();
  await unpriced.close();
  await browser.close();
});

async function start(books: readonly PriceBook[]): Promise<TestServer> {
  const showcase = await createShowcase();
  const settings = { ...testSettings(), pricing: { books } };
  return startTestServer({
    ledger: showcase.ledger,
    views: { ...showcase.views(() => settings), settings: () => settings },
  });
}

async function open(server: TestServer, hash: string, options: PageOptions = {}): Promise<Page> {
  const { page } = await openPage(browser, { token: API_TOKEN, ...options });
  await page.goto(`http://127.0.0.1:${server.port}/${hash}`);
  return page;
}

/** What the API answers, in the words of the page. */
async function total(query: string): Promise<string> {
  const { text } = await priced.call('GET', `/api/v1/costs?${query}`, { token: API_TOKEN });
  const [, cost = ''] =
    /"amounts":\[\{"currency":"EUR","digits":2,"cost":([\d.]+)\}\]/.exec(text) ?? [];
  // A role's name has plain spaces.
  const amount = Number(cost).toLocaleString('en', { minimumFractionDigits: 2 });
  return `${amount.replaceAll(',', ' ')} EUR`;
}

test('a month says what it has cost so far, by metric, tenant and model, to the cent', async () => {
  const page = await open(priced, '#/months/2026-11');
  const month = 'from=2026-11-01&to=2026-12-01';
  const all = await total(month);
  await page.getByRole('heading', { name: `By metric: ${all} so far` }).waitFor();
  const gpus = await total(`${month}&metric=tenant_gpu_hours`);
  await page.getByRole('row', { name: new RegExp(`^GPU hours .* ${gpus} `) }).waitFor();
  await page
    .getByRole('row', { name: /^CPU core.* unpriced / })
    .first()
    .waitFor();
  const globex = await total(`${month}&metric=tenant_gpu_hours&tenant=globex`);
  await page.getByRole('row', { name: new RegExp(`^Globex .* ${globex} `) }).waitFor();
  await page.goto(`http://127.0.0.1:${priced.port}/#/months/2026-11?tenant=globex`);
  await page.getByRole('row', { name: new RegExp(`H100.* ${globex} `) }).waitFor();
  await page.context().close();
});

test.each([
  ['#/?range=month', /^Globex/],
  ['#/tenants?range=month', /^Globex/],
  ['#/usage?range=month&metric=tenant_gpu_hours', /^Globex/],
  ['#/tenants/globex?range=month', /^GPU hours/],
])('on %s money stands beside usage', async (hash, row) => {
  const page = await open(priced, hash);
  await page.getByRole('columnheader', { name: 'Cost', exact: true }).waitFor();
  await page
    .getByRole('row', { name: row })
    .filter({ hasText: /[\d\s]+\.\d\d EUR/ })
    .waitFor();
  await page.context().close();
});

test('a month says what a million tokens of each model cost in GPUs', async () => {
  const tokensOf = (model: string, quantity: string, hour: number): UsageEvent => ({
    ...testEvent({ tenant: 'globex', quantity, windowStart: Date.UTC(2026, 10, 2, hour) }),
    metric: 'tenant_inference_tokens',
    unit: 'tokens',
    dimensions: { model },
  });
  const showcase = await createShowcase();
  const events = [tokensOf('llama-x', '3000000000', 1), tokensOf('qwen-x', '1000000000', 2)];
  await showcase.ledger.append({ events });
  const price = priceOf('tenant_inference_tokens', flat(0.000_005), {
    match: { model: 'llama-x' },
  });
  const settings = { ...testSettings(), pricing: { books: [bookOf([...book.prices, price])] } };
  await using server: TestServer = await startTestServer({
    ledger: showcase.ledger,
    views: { ...showcase.views(() => settings), settings: () => settings },
  });
  const month = '/api/v1/costs?from=2026-11-01&to=2026-12-01&group_by=tenant,model';
  const { json } = await server.call('GET', month, { token: API_TOKEN });
  const { token_costs: costs } = json as { token_costs: readonly ModelCost[] };
  const money = (amount = 0, places = 2): string =>
    amount
      .toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places })
      .replace('.', '\\.')
      .replaceAll(',', '\\s');
  const [llama, qwen] = ['llama-x', 'qwen-x'].map((model) =>
    costs.find((one) => one.model === model),
  );
  const page = await open(server, '#/months/2026-11');
  await page.getByRole('heading', { name: 'Tokens against GPUs' }).waitFor();
  const each = `${money(llama?.gpu_cost_per_million, 3)} EUR`;
  for (const shown of [
    `Globexllama-x3\\s000\\s000\\s000${money(llama?.gpu_cost)} EUR${each}5\\.000 EUR${money(llama?.margin)} EUR`,
    `Globexqwen-x1\\s000\\s000\\s000${money(qwen?.gpu_cost)} EUR${each}unknownunknown`,
  ]) {
    const row = page.getByRole('row').filter({ hasText: new RegExp(`^${shown}$`) });
    await row.waitFor();
  }
  await page.context().close();
});

test('where there is no price book nobody reads of money, or of 0', async () => {
  const page = await open(unpriced, '#/months/2026-11');
  await page.getByRole('row', { name: /^Globex/ }).waitFor();
  await page.waitForLoadState('networkidle');
  expect(await page.locator('main').textContent()).not.toMatch(/cost so far|unpriced|EUR/i);
  await page.context().close();
});

test('where prices cannot be read usage is shown all the same, and that costs are missing', async () => {
  const showcase = await createShowcase();
  const settings = testSettings();
  await using unread: TestServer = await startTestServer({
    ledger: showcase.ledger,
    views: { ...showcase.views(() => settings), pricesKnown: () => false },
  });
  const page = await open(unread, '#/usage?range=month', { expectedStatuses: [503] });
  await page.getByRole('row', { name: /^Globex/ }).waitFor();
  await page.getByText('Costs are not shown: PriceBooks have not been read yet').waitFor();
  await page.context().close();
});

test('at 390 px a cost is named on the card of its row, and nothing is cut', async () => {
  const page = await open(priced, '#/months/2026-11', { width: 390 });
  await page.getByText(/^By metric: .* EUR so far$/).waitFor();
  await page
    .getByText(/^[\d\s]+\.\d\d EUR$/)
    .first()
    .waitFor();
  const cut = await page.evaluate(
    `[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.ariaLabel)`,
  );
  expect(cut).toStrictEqual([]);
  await page.context().close();
});
