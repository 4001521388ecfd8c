import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TenantBillingState } from '../../billing/enforcement/enforcement.ts';
import { AccessCheck } from '../../intake/access-check.ts';
import { bookOf, flat, priceOf } from '../../model/pricing/testing/price-books.ts';
import { budgetOf } from '../portal/testing/budget.ts';
import { newKey } from '../portal/testing/keys.ts';
import {
  API_TOKEN,
  quietBudgets,
  startTestServer,
  type TestServer,
  testSettings,
} from '../testing/test-server.ts';
import { launchBrowser, openPage } from './testing/browser.ts';
import { createShowcase } from './testing/showcase.ts';

let browser: Browser;
let server: TestServer;

/** One tenant is suspended for another reason than its budget. */
function stateOf(tenant: string): TenantBillingState {
  const nothing = { reason: '', source: '', eventType: '' };
  const state = tenant === 'hooli' ? 'suspended' : 'active';
  return { tenant, state, ...nothing, since: 0, manual: false, sources: [] };
}

/** Two EUR a million, of each kind. Nothing is left of the budget of `globex`. */
beforeAll(async () => {
  browser = await launchBrowser();
  const showcase = await createShowcase();
  const books = [bookOf([priceOf('tenant_inference_tokens', flat(0.000002))])];
  const settings = {
    ...testSettings({ ENFORCEMENT_MODE: 'enforce', PORTAL_KEYS: newKey() }),
    pricing: { books },
  };
  const access = new AccessCheck({
    budgets: {
      staleMs: 0,
      position: 0,
      left: (tenant) => {
        const { budget, limit } = budgetOf(tenant);
        const used = tenant === 'globex' ? limit : 0n;
        return { budget, limit, used, isSpent: used >= limit };
      },
    },
    openUsage: () => [],
    isKnown: () => true,
    billingState: stateOf,
    isSpared: () => false,
  });
  server = await startTestServer({
    ledger: showcase.ledger,
    views: {
      ...showcase.views(() => settings),
      settings: () => settings,
      access,
      budgets: { ...quietBudgets, of: budgetOf },
      billingState: stateOf,
    },
  });
});

afterAll(async () => {
  await server.close();
  await browser.close();
});

async function open(hash: string): Promise<Page> {
  const { page } = await openPage(browser, { token: API_TOKEN });
  await page.goto(`http://127.0.0.1:${server.port}/${hash}`);
  return page;
}

/** The rows of a table by its caption. */
function rowsOf(page: Page, caption: RegExp) {
  return page.getByRole('table', { name: caption }).locator('tbody tr');
}

test.each([
  ['#/?range=last-month', ''],
  ['#/tenants/globex?range=last-month', '&tenant=globex'],
])('on %s tokens are one large number, which no price is for', async (hash, filter) => {
  const query = `from=2026-10-01&to=2026-11-01&metric=tenant_inference_tokens${filter}`;
  const path = `/api/v1/costs?${query}&group_by=model,token_type`;
  const { json } = await server.call('GET', path, { token: API_TOKEN });
  const { rows } = json as {
    readonly rows: readonly {
      readonly model: string;
      readonly token_type: string;
      readonly quantity: number;
      readonly cost: number;
    }[];
  };
  const page = await open(hash);
  await page.getByRole('heading', { name: /^Tokens: \d+\.\d{3} million$/ }).waitFor();
  const table = rowsOf(page, /^Tokens from/);
  await table.filter({ hasText: 'EUR' }).first().waitFor();
  const texts = await table.evaluateAll((all) =>
    all.map((row) => [...row.children].map((cell) => cell.textContent.trim()).join(' | ')),
  );
  const format = new Intl.NumberFormat('en', { minimumFractionDigits: 3, useGrouping: false });
  expect(rows).toHaveLength(6);
  expect(texts).toStrictEqual(
    rows.map(({ model, token_type, quantity, cost }) => {
      const million = format.format(Math.round(quantity / 1000) / 1000);
      return `${model} | ${token_type.replace('_', ' ')} | ${million} | ${cost.toFixed(2)} EUR`;
    }),
  );
  await page.context().close();
});

test('a chart of tokens is one area, because tokens have no SKU', async () => {
  const page = await open('#/tenants/globex?range=7d&metric=tenant_inference_tokens');
  const chart = page.locator('figure').filter({ hasText: 'Inference tokens by model' });
  await chart.locator('.legend').getByText('qwen3-235b').waitFor();
  expect(await chart.locator('.legend').getByText('none').count()).toBe(0);
  await page.context().close();
});

test('a tenant without tokens reads of tokens', async () => {
  const page = await open('#/tenants/initech?range=7d');
  await page.getByText('Billed as').waitFor();
  await page.waitForLoadState('networkidle');
  expect(await page.locator('main').textContent()).not.toMatch(/token/i);
  await page.context().close();
});

test('a tenant that gateways refuse looks like one that they serve', async () => {
  const page = await open('#/tenants/globex');
  const refused = page.getByRole('alert');
  await refused.waitFor();
  expect(await refused.textContent()).toBe(
    'Refused: its requests at AI gateways. Nothing is left of its budget.',
  );
  await page.getByText('123.45 EUR of 500.00 EUR used').waitFor();
  await page.goto(`http://127.0.0.1:${server.port}/#/tenants/hooli`);
  const both = 'Refused: new pods of its tenant clusters and its requests at AI gateways.';
  await page.getByText(both, { exact: true }).waitFor();
  await page.goto(`http://127.0.0.1:${server.port}/#/tenants/initech`);
  await page.getByText('Billed as').waitFor();
  await page.waitForLoadState('networkidle');
  expect(await page.getByRole('alert').count()).toBe(0);
  await page.goto(`http://127.0.0.1:${server.port}/#/tenants`);
  const known = rowsOf(page, /^Tenants known now/);
  await known.filter({ hasText: 'Hooli' }).getByText('suspended').waitFor();
  expect(await known.filter({ hasText: 'suspended' }).count()).toBe(1);
  await page.context().close();
});

test('a tenant sees neither its tokens nor that its requests are refused', async () => {
  const path = '/api/v1/tenants/globex/portal-tokens';
  const made = await server.call('POST', path, { token: API_TOKEN });
  const { page } = await openPage(browser);
  const { link } = made.json as { readonly link: string };
  await page.goto(`http://127.0.0.1:${server.port}${link}`);
  await page.getByText('Requests at AI gateways are refused.').waitFor();
  await page.getByRole('heading', { name: /^Tokens: \d+\.\d{3} million$/ }).waitFor();
  expect(await rowsOf(page, /^Tokens from/).count()).toBe(6);
  await page.context().close();
});
