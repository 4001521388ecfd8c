import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { API_TOKEN, startTestServer, type TestServer } from '../testing/test-server.ts';
import { readAssets } from './dashboard.ts';
import { launchBrowser, openPage, type WatchedPage } from './testing/browser.ts';

let browser: Browser;
let server: TestServer;
let watched: WatchedPage;

beforeAll(async () => {
  browser = await launchBrowser();
  server = await startTestServer();
  watched = await openPage(browser, { token: API_TOKEN });
});

afterAll(async () => {
  await server.close();
  await browser.close();
});

/** What is served of the documentation, by its name there. */
const DOCUMENTS = new Map(
  [...readAssets()].flatMap(([path, { body }]) =>
    path.startsWith('docs/') ? [[path.slice('docs/'.length), body.toString()] as const] : [],
  ),
);

/** What a reader of a page meets. */
interface Shown {
  readonly links: readonly string[];
  readonly ids: readonly string[];
}

async function show(name: string): Promise<Shown> {
  const { page, settled } = watched;
  await page.goto(`http://127.0.0.1:${server.port}/#/docs/${name}`);
  await page.locator('main .card :is(.prose, pre)').first().waitFor();
  await settled();
  return page.evaluate(`({
    links: [...document.querySelectorAll('main .card a[href]')].map((one) => one.getAttribute('href')),
    ids: [...document.querySelectorAll('main [id]')].map((one) => one.id),
  })`);
}

/** The links that a page has as it is written, pictures and code left out. */
function written(name: string): number {
  const prose = (DOCUMENTS.get(name) ?? '')
    .replaceAll(/^ *```[\s\S]*?^ *```$/gm, '')
    .replaceAll(/^<!--.*-->$/gm, '')
    .replaceAll(/`[^`\n]*`/g, 'code')
    .replace(/^# .*$/m, '');
  return [...prose.matchAll(/(?<!!)\[[^\]]*\]\([^)\s]+\)/g)].length;
}

test('a link of the documentation is plain text, or opens nothing', {
  timeout: 120_000,
}, async () => {
  const shown = new Map<string, Shown>();
  for (const name of DOCUMENTS.keys()) shown.set(name, await show(name));
  expect(shown.size).toBeGreaterThan(30);
  const opens = (link: string): boolean => {
    if (/^https?:/.test(link)) return true;
    const [, page = '', at] = /^#\/docs\/([^?]+)(?:\?at=(.*))?$/.exec(link) ?? [];
    const ids = shown.get(decodeURIComponent(page))?.ids;
    return ids !== undefined && (at === undefined || ids.includes(decodeURIComponent(at)));
  };
  const broken = [...shown].flatMap(([name, { links }]) =>
    links.filter((link) => !opens(link)).map((link) => `${name}: ${link}`),
  );
  expect(broken).toStrictEqual([]);
  const plain = [...shown].flatMap(([name, { links }]) =>
    name.endsWith('.md') && links.length !== written(name)
      ? [`${name}: ${links.length} links of ${written(name)}`]
      : [],
  );
  expect(plain).toStrictEqual([]);
  expect(watched.problems).toStrictEqual([]);
});

test('a page of the dashboard links to a document that is not there', () => {
  const linked = [...readAssets()].flatMap(([path, { body }]) =>
    path.endsWith('.js')
      ? [...body.toString().matchAll(/link\(\['docs', ((?:'[^']+'(?:, )?)+)\]\)/g)]
      : [],
  );
  const names = linked.map(([, parts = '']) => parts.replaceAll("'", '').split(', ').join('/'));
  expect(names.length).toBeGreaterThan(2);
  expect(names.filter((name) => !DOCUMENTS.has(name))).toStrictEqual([]);
});

test('a reader who does not know a word finds no glossary', async () => {
  const { page } = watched;
  await page.goto(`http://127.0.0.1:${server.port}/#/`);
  await page.locator('footer').getByRole('link', { name: 'Glossary' }).click();
  await page.getByRole('heading', { name: 'Glossary', level: 1 }).waitFor();
  await page.locator('main').getByText('One customer of the billing systems').waitFor();
});
