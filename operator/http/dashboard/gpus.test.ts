import { readFile } from 'node:fs/promises';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newKey } from '../portal/testing/keys.ts';
import { API_TOKEN, startTestServer, type TestServer } from '../testing/test-server.ts';
import { launchBrowser, openPage } from './testing/browser.ts';
import { createShowcase } from './testing/showcase.ts';

let browser: Browser;
let server: TestServer;

beforeAll(async () => {
  browser = await launchBrowser();
  const showcase = await createShowcase();
  server = await startTestServer({
    ledger: showcase.ledger,
    environment: { PORTAL_KEYS: newKey() },
    views: showcase.views(() => server.settings),
  });
});

afterAll(async () => {
  await server.close();
  await browser.close();
});

const H100 = 'NVIDIA-H100-80GB-HBM3';
const DAYS = 'range=custom&from=2026-11-20&to=2026-11-20';
const RANGE = 'from=2026-11-20&to=2026-11-21';

const NAMES = new Map([
  ['acme-research', 'Acme Research'],
  ['globex', 'Globex'],
  ['hooli', 'Hooli'],
  ['initech', 'Initech'],
  ['unassigned', 'Unassigned'],
]);

interface Row {
  readonly tenant?: string;
  readonly gpu_type: string;
  readonly delivered: number;
  readonly installed?: number;
  readonly in_use: number;
  readonly utilization: number | 'unknown';
}

async function rowsOf(query: string): Promise<readonly Row[]> {
  const answer = await server.call('GET', `/api/v1/gpus?${query}`, { token: API_TOKEN });
  return (answer.json as { readonly rows: readonly Row[] }).rows;
}

const shown = (value: number): string =>
  value.toLocaleString('en', { minimumFractionDigits: 3, maximumFractionDigits: 3 });

test('the page says what everybody and nobody has, as the API does, and what is unknown', async () => {
  const { page, settled } = await openPage(browser, { token: API_TOKEN });
  await page.goto(`http://127.0.0.1:${server.port}/#/gpus?${DAYS}`);
  const table = page.getByRole('region', { name: 'GPU-hours of each tenant, and unassigned' });
  await table.waitFor();
  await settled();
  const rows = await rowsOf(RANGE);
  expect(rows.length).toBeGreaterThan(5);
  const lines = await table.getByRole('row').allInnerTexts();
  for (const { tenant, gpu_type: model, delivered, in_use: used, utilization } of rows) {
    const name = NAMES.get(tenant ?? '') ?? '';
    const line = lines.find((text) => text.startsWith(name) && text.includes(model));
    const percent = utilization === 'unknown' ? utilization : `${utilization.toFixed(1)} %`;
    for (const figure of [shown(delivered), shown(used), percent.replace('.0 ', ' ')]) {
      expect(line).toContain(figure);
    }
  }
  expect(lines.at(-1)).toMatch(/^Unassigned/);
  const [installed] = await rowsOf(`${RANGE}&group_by=gpu_type&gpu_type=${H100}`);
  expect(installed?.delivered).toBe(installed?.installed);
  const models = page.getByRole('region', { name: /GPU-hours from/ });
  const ofModel = await models.getByRole('row', { name: new RegExp(H100) }).innerText();
  expect(ofModel).toContain(shown(installed?.installed ?? 0));
  await page.context().close();
});

test('a download has the rows of the page with every digit', async () => {
  const { page } = await openPage(browser, { token: API_TOKEN });
  await page.goto(`http://127.0.0.1:${server.port}/#/gpus?${DAYS}`);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'GPUs as CSV' }).click(),
  ]);
  const saved = await readFile(await download.path(), 'utf8');
  const { text } = await server.call('GET', `/api/v1/gpus?${RANGE}&format=csv`, {
    token: API_TOKEN,
  });
  expect(saved).toBe(text);
  expect(saved).toContain('hooli,AMD_Instinct_MI300X_OAM,192,192,192,144,48,unknown,0');
  await page.context().close();
});

test('a tenant sees its own GPUs and nobody else’s, and one without any sees no such card', async () => {
  const linkOf = async (tenant: string): Promise<string> => {
    const path = `/api/v1/tenants/${tenant}/portal-tokens`;
    const made = await server.call('POST', path, { token: API_TOKEN });
    return `http://127.0.0.1:${server.port}${(made.json as { readonly link: string }).link}`;
  };
  const { page } = await openPage(browser);
  await page.goto(await linkOf('globex'));
  await page.getByText('Usage and cost').waitFor();
  await page.evaluate(`location.hash = '#/?${DAYS}'`);
  const card = page.locator('section.card').filter({ hasText: 'Utilisation' });
  await card.getByText('91.5 %').waitFor();
  expect(await card.innerText()).toContain('192.000');
  expect(await card.innerText()).not.toMatch(/installed|unassigned|AMD/i);
  await page.context().close();
  const other = await openPage(browser);
  await other.page.goto(await linkOf('pied-piper'));
  await other.page.getByText('Usage and cost').waitFor();
  await other.settled();
  expect(await other.page.getByText('Utilisation').count()).toBe(0);
  await other.page.context().close();
});
