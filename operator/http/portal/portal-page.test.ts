import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import axe from 'axe-core';
import type { Browser, Frame, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BACKGROUNDS } from '../../settings/parsers/colours.ts';
import { launchBrowser, openPage } from '../dashboard/testing/browser.ts';
import {
  createEstate,
  type DashboardEstate,
  HOSTILE,
  SHOWN_EVENT,
} from '../dashboard/testing/estate.ts';
import {
  API_TOKEN,
  quietBudgets,
  startTestServer,
  type TestServer,
} from '../testing/test-server.ts';
import { budgetOf } from './testing/budget.ts';
import { newKey } from './testing/keys.ts';

let browser: Browser;
let estate: DashboardEstate;
let server: TestServer;

const PICTURE = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 1"><rect width="4" height="1" fill="#7a1f5f"/><script>document.title='ran'</script></svg>`;
const LOGO = `data:image/svg+xml;base64,${Buffer.from(PICTURE).toString('base64')}`;

beforeAll(async () => {
  browser = await launchBrowser();
  estate = await createEstate();
  server = await startTestServer({
    ledger: estate.ledger,
    environment: { PORTAL_KEYS: newKey() },
    views: { ...estate.views(() => server.settings), budgets: { ...quietBudgets, of: budgetOf } },
  });
});

afterAll(async () => {
  await server.close();
  await browser.close();
});

async function mint(tenant = 'acme'): Promise<{ readonly id: string; readonly link: string }> {
  const path = `/api/v1/tenants/${tenant}/portal-tokens`;
  const made = await server.call('POST', path, { token: API_TOKEN });
  return made.json as { id: string; link: string };
}

const origin = (): string => `http://127.0.0.1:${server.port}`;

/** Every view by its place, and a text that shows that its data has arrived. */
const VIEWS: readonly (readonly [hash: string, text: string])[] = [
  ['#/', 'Usage and cost'],
  ['#/?range=7d&by=tenant_cluster', 'Usage and cost'],
  [
    '#/sums?metric=tenant_gpu_hours&from=2026-11-21T08:00:00Z&to=2026-11-21T09:00:00Z',
    'GPU-hours in',
  ],
  [`#/events/${SHOWN_EVENT.id}`, 'What it is made of'],
  ['#/nowhere', 'No such page'],
];

const POLLS = [
  ['light', 360],
  ['dark', 820],
  ['light', 1280],
  ['dark', 1280],
] as const;

async function diagnostics(page: Page | Frame): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const { violations } = await (globalThis as typeof globalThis & { axe: typeof axe }).axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  });
}

describe('the page of a tenant', () => {
  test.each(VIEWS)(
    '%s: readable by everybody at three widths, light and dark, nothing beyond the edge, nobody else queried',
    async (hash, text) => {
      const { page, problems, settled } = await openPage(browser, { width: 360 });
      const requested: string[] = [];
      page.on('request', (request) => requested.push(request.url()));
      const { link } = await mint();
      await page.goto(`${origin()}${link}`);
      await page.getByText('Usage and cost').waitFor();
      await page.evaluate(`location.hash = ${JSON.stringify(hash)}`);
      await page.getByText(text).first().waitFor();
      await settled();
      for (const [colorScheme, width] of POLLS) {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme });
        expect(await diagnostics(page), `${colorScheme}, ${width} pixels`).toStrictEqual([]);
        const beyond = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
        expect(beyond, `${width} pixels wide`).toBe(false);
      }
      expect(requested.filter((address) => new URL(address).origin !== origin())).toStrictEqual([]);
      const [, token = ''] = link.split('#token=');
      expect(token.length).toBeGreaterThan(100);
      const queries = requested.map((address) => new URL(address).search);
      expect(queries.filter((query) => query.includes(token))).toStrictEqual([]);
      expect(queries.filter((query) => /[?&]\w*token=/i.test(query))).toStrictEqual([]);
      const foreign = 'main script, main img, main iframe, main [onerror], main a[href*="windows"]';
      expect(await page.locator(foreign).count()).toBe(0);
      expect(problems).toStrictEqual([]);
      await page.context().close();
    },
  );

  test('takes the token out of the address, and keeps it for the tab alone', async () => {
    const { page } = await openPage(browser);
    const { link } = await mint();
    const [, token = ''] = link.split('=');
    await page.goto(`${origin()}${link}`);
    await page.getByText('Usage and cost').waitFor();
    const stored = await page.evaluate(
      '[Object.keys(localStorage), document.cookie, location.href]',
    );
    expect(JSON.stringify(stored)).not.toContain(token.slice(0, 20));
    await page.reload();
    await page.getByText('Usage and cost').waitFor();
    const second = await page.context().newPage();
    await second.goto(`${origin()}/portal`);
    await second.getByText('This page needs a link').waitFor();
    await page.context().close();
  });

  test('shows budget, gaps and hostile names as text', async () => {
    const { page, problems, settled } = await openPage(browser);
    await page.goto(`${origin()}${(await mint()).link}`);
    await page.getByText('123.45 EUR of 500.00 EUR used').waitFor();
    await settled();
    expect(await page.getByText(HOSTILE[0]).count()).toBeGreaterThan(0);
    await page.getByRole('heading', { name: 'What was not measured' }).waitFor();
    expect(problems).toStrictEqual([]);
    await page.context().close();
  });

  test('is worked by the keyboard alone, down to why a number is what it is', async () => {
    const { page, settled } = await openPage(browser);
    await page.goto(`${origin()}${(await mint()).link}`);
    await page.getByText('Usage and cost').waitFor();
    await settled();
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the content');
    await page.keyboard.press('Enter');
    const reached: string[] = [];
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(
        '`${document.activeElement.tagName} ${document.activeElement.className}`',
      );
      reached.push(String(at));
      if (at === 'A sum') break;
    }
    expect(reached.filter((at) => at.startsWith('SELECT')).length).toBeGreaterThanOrEqual(3);
    expect(reached.at(-1)).toBe('A sum');
    await page.keyboard.press('Enter');
    await page.locator('nav.trail').waitFor();
    await page.context().close();
  });

  test('downloads exact figures of its tenant with the token in a header', async () => {
    const { page, settled } = await openPage(browser);
    await page.goto(`${origin()}${(await mint()).link}`);
    await page.getByText('Usage and cost').waitFor();
    await settled();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Events as CSV' }).click(),
    ]);
    const pieces: Buffer[] = [];
    for await (const piece of await download.createReadStream()) pieces.push(piece as Buffer);
    const [head, ...lines] = Buffer.concat(pieces).toString().trim().split('\r\n');
    expect(head).toContain('id,tenant,metric,quantity');
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.every((line) => line.split(',')[1] === 'acme')).toBe(true);
    await page.context().close();
  });

  test('says that it has ended when its token is revoked', async () => {
    const { page } = await openPage(browser, { expectedStatuses: [401] });
    const { id, link } = await mint();
    await page.goto(`${origin()}${link}`);
    await page.getByText('Usage and cost').waitFor();
    await server.call('DELETE', `/api/v1/tenants/acme/portal-tokens/${id}`, { token: API_TOKEN });
    await page.clock.runFor(61_000);
    await page.getByText('This link is no longer valid').waitFor();
    // Another token by another fragment, as a page around this one gives it.
    const next = await mint();
    await page.evaluate(`location.hash = ${JSON.stringify(next.link.slice('/portal'.length))}`);
    await page.getByText('Usage and cost').waitFor();
    await page.context().close();
  });

  test('looks as the provider wants, and nothing in the provider’s picture runs', async () => {
    const before = server.settings;
    const portal = {
      name: 'Example Cloud',
      logo: LOGO,
      colors: { light: '#7a1f5f', dark: '#f0a6d8' },
      frameAncestors: [],
    };
    server.settings = { ...before, portal };
    const { page, problems } = await openPage(browser);
    await page.goto(`${origin()}${(await mint()).link}`);
    await page.getByText('Usage and cost').waitFor();
    expect(await page.title()).toContain('Example Cloud');
    const width = await page.locator('header img').evaluate((image) => image.clientWidth);
    expect(width).toBe(128);
    const colour = () =>
      page.evaluate('getComputedStyle(document.querySelector("a.sum")).textDecorationColor');
    expect(await colour()).toBe('rgb(122, 31, 95)');
    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await colour()).toBe('rgb(240, 166, 216)');
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await diagnostics(page)).toStrictEqual([]);
    }
    expect(problems).toStrictEqual([]);
    const logo = await page.context().newPage();
    await logo.goto(`${origin()}/portal/logo`);
    expect(await logo.title()).not.toBe('ran');
    await page.context().close();
    server.settings = before;
  });

  test('is drawn on the backgrounds that colours are held against', async () => {
    const style = await (await fetch(`${origin()}/portal/files/style.css`)).text();
    expect(style).toContain(`--page: light-dark(${BACKGROUNDS.light},`);
    expect(style).toMatch(new RegExp(`--surface: light-dark\\(#\\w+, ${BACKGROUNDS.dark}\\)`));
  });
});

describe('a page of another origin', () => {
  /** A console of the provider's that embeds what it is told. */
  async function consoleWith(source: string) {
    const pages = createServer((_request, response) => {
      response.setHeader('Content-Type', 'text/html');
      response.end(
        `<!doctype html><html lang="en"><title>Console</title><main><h1>Console</h1><iframe title="Usage" width="700" height="800" src="${source}"></iframe></main></html>`,
      );
    });
    await new Promise<void>((resolve) => pages.listen(0, '127.0.0.1', resolve));
    const { port } = pages.address() as AddressInfo;
    return {
      address: `http://localhost:${port}`,
      [Symbol.asyncDispose]: () => new Promise<void>((done) => void pages.close(() => done())),
    };
  }

  test('embeds it where it is on the list, in its own theme, and no other page does', async () => {
    const before = server.settings;
    const { link } = await mint();
    await using host = await consoleWith(`${origin()}${link}&theme=dark`);
    server.settings = {
      ...before,
      portal: { frameAncestors: ['https://console.example.com', host.address] },
    };
    const { page, problems } = await openPage(browser, { width: 820 });
    await page.goto(host.address);
    const inner = page.frameLocator('iframe');
    await inner.getByText('Usage and cost').waitFor();
    const frame = page.frames().find((one) => one.url().startsWith(origin()));
    if (frame === undefined) throw new Error('no frame');
    expect(frame.url()).not.toContain('token');
    expect(await frame.evaluate('document.documentElement.dataset.theme')).toBe('dark');
    expect(await diagnostics(frame)).toStrictEqual([]);
    const beyond = await frame.evaluate('document.documentElement.scrollWidth > innerWidth');
    expect(beyond).toBe(false);
    expect(problems).toStrictEqual([]);

    server.settings = {
      ...before,
      portal: { frameAncestors: ['https://console.example.com'] },
    };
    const { page: other } = await openPage(browser);
    const refused = other.waitForEvent('console', (message) =>
      message.text().includes('frame-ancestors'),
    );
    await other.goto(host.address);
    await refused;
    expect(await other.frameLocator('iframe').getByText('Usage and cost').count()).toBe(0);
    await page.context().close();
    await other.context().close();
    server.settings = before;
  });

  test('cannot embed the dashboard, whatever the list says', async () => {
    const before = server.settings;
    server.settings = { ...before, portal: { frameAncestors: ['https://console.example.com'] } };
    for (const path of ['/', '/dashboard/main.js', '/api/v1/status']) {
      const { headers } = await fetch(`${origin()}${path}`, { headers: { accept: 'text/html' } });
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
      expect(headers.get('x-frame-options')).toBe('SAMEORIGIN');
    }
    const { headers } = await fetch(`${origin()}/portal`);
    expect(headers.get('content-security-policy')).toMatch(
      /frame-ancestors https:\/\/console\.example\.com$/,
    );
    expect(headers.get('x-frame-options')).toBeNull();
    server.settings = before;
  });
});

test('a token in the query is refused, and without a key there is no page', async () => {
  const { link } = await mint();
  const requested = await fetch(`${origin()}${link.replace('#', '?')}`);
  expect(requested.status).toBe(400);
  expect((await requested.text()).length).toBeLessThan(200);
  await using without = await startTestServer();
  for (const path of [
    '/portal',
    '/portal/brand.json',
    '/portal/brand.css',
    '/portal/logo',
    '/portal/icon',
    '/portal/files/portal/main.js',
  ]) {
    const { status } = await fetch(`http://127.0.0.1:${without.port}${path}`);
    expect([path, status]).toStrictEqual([path, 404]);
  }
});
