import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { launchBrowser, openPage } from '../operator/http/dashboard/testing/browser.ts';
import { createShowcase } from '../operator/http/dashboard/testing/showcase.ts';
import {
  API_TOKEN,
  startTestServer,
  type TestServer,
} from '../operator/http/testing/test-server.ts';

/** `npm run screenshots`: the README's picture of the dashboard, out of the real pages in a real browser. */
const DIRECTORY = join(import.meta.dirname, '../docs/images');

await mkdir(DIRECTORY, { recursive: true });
const browser = await launchBrowser();
const showcase = await createShowcase();
const server: TestServer = await startTestServer({
  ledger: showcase.ledger,
  views: showcase.views(() => server.settings),
});
try {
  const { page } = await openPage(browser, { token: API_TOKEN, width: 1200 });
  await page.setViewportSize({ width: 1200, height: 860 });
  await page.goto(`http://127.0.0.1:${server.port}/`);
  await page.getByText('Acme Research').first().waitFor();
  await page.locator('canvas').waitFor();
  await page.waitForLoadState('networkidle');
  await page.screenshot({ path: join(DIRECTORY, 'dashboard.png') });
} finally {
  await server.close();
  await browser.close();
}
