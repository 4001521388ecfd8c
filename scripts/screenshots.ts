import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { launchBrowser, openPage } from '../operator/http/dashboard/testing/browser.ts';
import { createShowcase, SHOWCASE_EVENT } from '../operator/http/dashboard/testing/showcase.ts';
import type { BudgetState } from '../operator/billing/budgets/budget-state.ts';
import { minorUnits } from '../operator/billing/budgets/unit.ts';
import { budgetOf } from '../operator/http/portal/testing/budget.ts';
import { newKey } from '../operator/http/portal/testing/keys.ts';
import {
  API_TOKEN,
  INGEST_TOKEN,
  NOW,
  quietBudgets,
  startTestServer,
  type TestServer,
} from '../operator/http/testing/test-server.ts';
import { bookOf, flat, priceOf } from '../operator/model/pricing/testing/price-books.ts';

/**
 * `npm run screenshots`: takes the documentation's pictures of the dashboard and of a tenant's own
 * view, from the real pages in a real browser. `npm run screenshots -- DIRECTORY` takes every page
 * instead, at three widths in both themes, for a review.
 */
const DIRECTORY = join(import.meta.dirname, '../docs/images');
const WIDTHS = [390, 820, 1440];

const H100 = 'metric=tenant_gpu_hours&tenant=acme-research&sku=NVIDIA-H100-80GB-HBM3';

/** Every view by name: its place, a text that proves it is shown, and the first click. */
const VIEWS: readonly (readonly [name: string, hash: string, text: string, click?: string])[] = [
  ['overview', '#/', 'Usage by tenant'],
  ['month', '#/months/2026-11', 'Does the billing system agree', 'button:text("Compare now")'],
  ['month-of-a-tenant', '#/months/2026-10?tenant=acme-research', 'By model and class'],
  [
    'sum-1-days',
    `#/sums?${H100}&from=2026-11-01T00:00:00Z&to=2026-12-01T00:00:00Z`,
    'GPU-hours in',
  ],
  [
    'sum-2-hours',
    `#/sums?${H100}&from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z`,
    'GPU-hours in',
  ],
  ['sum-3-events', `#/sums?${H100}&from=2026-11-20T14:00:00Z&to=2026-11-20T15:00:00Z`, 'Why '],
  ['sum-4-why', `#/events/${SHOWCASE_EVENT}`, 'What it is made of'],
  ['correction', `#/events/${SHOWCASE_EVENT}`, 'Corrections', 'button:text("Correct this event")'],
  ['usage-by-tenant-cluster', '#/usage?by=tenant_cluster&range=7d', 'Sums'],
  ['usage-before-metering', '#/usage?range=custom&from=2026-10-01&to=2026-10-05', 'Sums'],
  ['gpus', '#/gpus?range=7d', 'By tenant and model'],
  ['tenants-held', '#/tenants', 'Held usage'],
  ['tenant', '#/tenants/acme-research', 'Billed as'],
  ['gaps', '#/gaps', 'Details', 'summary'],
  ['windows', '#/windows', 'backfilled'],
  ['window', '#/windows/2026-11-21T09:00:00Z', 'Where GPU time went'],
  ['destinations', '#/destinations', 'data-lake'],
  ['destination', '#/destinations/data-lake', '20 events of', 'summary'],
  ['enforcement', '#/enforcement', 'Set a state by hand'],
  ['documentation', '#/docs/how-to/month-end.md', 'What the words mean'],
];

/** Views of the tenant `acme-research`, below `/portal`. */
const PORTAL_VIEWS: typeof VIEWS = [
  ['portal', '#/?range=7d', 'Usage and cost'],
  ['portal-sum', `#/sums?${H100}&from=2026-11-20T14:00:00Z&to=2026-11-20T15:00:00Z`, 'Why '],
  ['portal-why', `#/events/${SHOWCASE_EVENT}`, 'What it is made of'],
];
const MARK =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="15" fill="#7a1f5f"/><path d="M9 20h14L16 9z" fill="#fff"/></svg>';

const EUR = 10n ** 21n;

const [, , everything] = process.argv;
const browser = await launchBrowser();
const showcase = await createShowcase();
const usageDirectory = await mkdtemp(join(tmpdir(), 'screenshots-'));
const server: TestServer = await startTestServer({
  usageDirectory,
  ledger: showcase.ledger,
  environment: { 'spec.ingest.unknownTenants': 'hold', PORTAL_KEYS: newKey() },
  views: {
    ...showcase.views(() => server.settings),
    budgets: { ...quietBudgets, of: budgetFromCosts },
  },
});
server.settings = {
  ...server.settings,
  pricing: {
    books: [
      bookOf([
        priceOf('tenant_gpu_hours', flat(2.5)),
        priceOf('tenant_cpu_core_hours', flat(0.04)),
        priceOf('tenant_inference_tokens', flat(0.0000006)),
      ]),
    ],
  },
  portal: {
    name: 'Example Cloud',
    logo: `data:image/svg+xml;base64,${Buffer.from(MARK).toString('base64')}`,
    colors: { light: '#7a1f5f', dark: '#f0a6d8' },
    frameAncestors: [],
  },
};
/** Cost of the portal's tenant this month. Its budget and its costs must agree. */
const spent = await spentOf('acme-research');
try {
  if (everything === undefined) await takePicture(browser);
  else await takeAll(browser, everything);
} finally {
  await server.close();
  await browser.close();
  await rm(usageDirectory, { recursive: true });
}

async function spentOf(tenant: string): Promise<bigint> {
  const path = `/api/v1/costs?from=2026-11-01&to=2026-12-01&tenant=${tenant}`;
  const { json } = await server.call('GET', path, { token: API_TOKEN });
  const { amounts } = json as { readonly amounts: readonly { readonly cost: number }[] };
  return (BigInt(Math.round((amounts[0]?.cost ?? 0) * 100)) * EUR) / 100n;
}

/** A budget that the month's average exhausts near its end. */
function budgetFromCosts(tenant: string): BudgetState {
  const status = budgetOf(tenant);
  const elapsed = NOW - status.period.from;
  const limit = 25_000n * EUR;
  return {
    ...status,
    budget: { ...status.budget, amount: limit },
    limit,
    used: spent,
    usedInMinorUnits: (digits) => minorUnits(spent, digits),
    usedUpAt: () => {
      const at = NOW + Number(((limit - spent) * BigInt(elapsed)) / spent);
      return at - (at % 60_000);
    },
    uncounted: ['tenant_memory_gb_hours', 'tenant_instance_hours'],
  };
}

async function takePicture(of: Browser): Promise<void> {
  await mkdir(DIRECTORY, { recursive: true });
  const { page } = await openPage(of, { token: API_TOKEN, width: 1200 });
  await page.setViewportSize({ width: 1200, height: 860 });
  await page.goto(`http://127.0.0.1:${server.port}/`);
  await page.getByText('Acme Research').first().waitFor();
  await page.locator('canvas').waitFor();
  await page.waitForLoadState('networkidle');
  await page.screenshot({ path: join(DIRECTORY, 'dashboard.png') });
  const own = await openPage(of, { width: 1200 });
  await own.page.goto(`http://127.0.0.1:${server.port}${await portalLink()}`);
  await own.page.locator('canvas').waitFor();
  await own.settled();
  expectOneAmount(await own.page.locator('body').innerText());
  await own.page.screenshot({ path: join(DIRECTORY, 'portal.png'), fullPage: true });
}

/** Throws if the portal shows different amounts as this month's cost and as the used budget. */
function expectOneAmount(text: string): void {
  const [cost, used] = ['Cost in this time', 'Used'].map(
    (label) => new RegExp(`^${label}\\s+([\\d.\\s]+ EUR)`, 'm').exec(text)?.[1],
  );
  if (cost === undefined || cost !== used) {
    throw new Error(
      `the portal contradicts itself: cost: "${cost}", used of the budget: "${used}"`,
    );
  }
}

async function portalLink(): Promise<string> {
  const path = '/api/v1/tenants/acme-research/portal-tokens';
  const made = await server.call('POST', path, { token: API_TOKEN });
  return (made.json as { readonly link: string }).link;
}

async function takeAll(of: Browser, directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  await holdUsage();
  for (const [name, hash, text, click] of VIEWS) {
    const { page, settled } = await openPage(of, { token: API_TOKEN });
    await page.goto(`http://127.0.0.1:${server.port}/${hash}`);
    await page.getByText(text).filter({ visible: true }).first().waitFor();
    await settled();
    if (click !== undefined) await page.locator(click).filter({ visible: true }).first().click();
    await settled();
    await takePolls(page, join(directory, name));
    await page.context().close();
  }
  const link = await portalLink();
  for (const [name, hash, text] of PORTAL_VIEWS) {
    const { page, settled } = await openPage(of);
    await page.goto(`http://127.0.0.1:${server.port}${link}`);
    await page.getByText('Usage and cost').waitFor();
    await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
    await page.getByText(text).filter({ visible: true }).first().waitFor();
    await settled();
    await takePolls(page, join(directory, name));
    await page.context().close();
  }
}

async function takePolls(page: Page, path: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      await page.screenshot({ path: `${path}-${width}-${colorScheme}.png`, fullPage: true });
    }
  }
}

/** Pushes usage for unknown tenants. */
async function holdUsage(): Promise<void> {
  const window = { window_start: '2026-11-21T08:00:00Z', window_end: '2026-11-21T08:01:00Z' };
  const events = ['acme-reserch', 'a-new-customer-with-a-long-name'].flatMap((tenant) =>
    [1, 2, 3].map((quantity) => ({
      ...window,
      id: `${tenant}-${quantity}`,
      tenant,
      metric: 'tokens_used',
      quantity,
    })),
  );
  await server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body: { events } });
}
