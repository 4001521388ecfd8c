import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { documentFiles, readAssets } from '../operator/http/dashboard/dashboard.ts';
import { launchBrowser, openPage } from '../operator/http/dashboard/testing/browser.ts';
import { newKey } from '../operator/http/portal/testing/keys.ts';
import {
  API_TOKEN,
  quietDiscovery,
  startTestServer,
  testTenant,
} from '../operator/http/testing/test-server.ts';
import { bundle } from './bundle.ts';

const ROOT = join(import.meta.dirname, '..');

test('a document is not in the bundle, a page fetches sixty files there, or does not work', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-bundle-'));
  const browser = await launchBrowser();
  try {
    await bundle(directory);
    const shipped = readAssets(join(directory, 'client'));
    const documents = [...readAssets().keys()].filter((path) => path.startsWith('docs/'));
    expect([...shipped.keys()].filter((path) => path.startsWith('docs/')).toSorted()).toStrictEqual(
      documents.toSorted(),
    );
    await using server = await startTestServer({
      environment: { PORTAL_KEYS: newKey() },
      views: { discovery: quietDiscovery({ tenants: () => [testTenant('acme')] }) },
    });
    const path = '/api/v1/tenants/acme/portal-tokens';
    const { json } = await server.call('POST', path, { token: API_TOKEN });
    const { link } = json as { readonly link: string };
    for (const [address, text] of [
      ['/', 'Usage by tenant'],
      [link, 'Usage and cost'],
    ] as const) {
      const { page, problems, settled } = await openPage(browser, { token: API_TOKEN });
      const fetched: string[] = [];
      page.on('response', (response) => {
        if (response.request().resourceType() !== 'fetch') fetched.push(response.url());
      });
      await page.route(/\/(dashboard|portal\/files)\//, async (route) => {
        const name = route
          .request()
          .url()
          .replace(/^.*?\/(dashboard|portal\/files)\//, '');
        const asset = shipped.get(name);
        if (asset === undefined) return route.fulfill({ status: 404 });
        return route.fulfill({ body: asset.body, contentType: asset.contentType });
      });
      await page.goto(`http://127.0.0.1:${server.port}${address}`);
      await page.getByText(text).waitFor();
      await settled();
      expect(fetched.length, fetched.join(' ')).toBeLessThanOrEqual(7);
      expect(problems).toStrictEqual([]);
    }
  } finally {
    await browser.close();
    await rm(directory, { recursive: true });
  }
});

test('a page of the documentation is not there when the image is built', async () => {
  const copied = (await readFile(join(ROOT, 'Dockerfile'), 'utf8'))
    .split('\n')
    .flatMap((line) => /^COPY (?!--)(.*) \S+$/.exec(line)?.[1]?.split(' ') ?? []);
  const files = documentFiles().map(([, file]) => relative(ROOT, file));
  const missing = files.filter(
    (file) => !copied.some((one) => file === one || file.startsWith(`${one}/`)),
  );
  expect(missing).toStrictEqual([]);
});
