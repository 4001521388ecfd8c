import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page, type Request } from 'playwright-core';
import { NOW } from '../../testing/test-server.ts';

const CANDIDATES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/**
 * Starts the installed Chromium without a window. Throws when there is none, saying how to get one.
 */
export async function launchBrowser(): Promise<Browser> {
  const chosen = process.env['CHROMIUM'] ?? CANDIDATES.find((path) => existsSync(path));
  if (chosen === undefined) {
    throw new Error(
      'no Chromium: the dashboard is tested in a real browser: install it (Debian: apt-get install chromium), or name its program in CHROMIUM',
    );
  }
  return chromium.launch({
    executablePath: chosen,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
    ],
  });
}

/** Runs in the page: a violation becomes a console error, which {@link openPage} collects. */
const NOTE_VIOLATIONS = `addEventListener('securitypolicyviolation', (event) => {
  console.error('refused by the content security policy: ' + event.blockedURI);
})`;

/** A tab that remembers everything a reader must never meet. */
export interface WatchedPage {
  readonly page: Page;
  /** Console errors, uncaught exceptions, violations of the content security policy, dialogs. */
  readonly problems: string[];
  /** Resolves when nothing that was asked for is under way and what came of it is drawn. */
  readonly settled: () => Promise<void>;
}

export interface PageOptions {
  readonly scheme?: 'light' | 'dark';
  readonly width?: number;
  /** Answers that are expected to fail, so that the browser's own note of them is no problem. */
  readonly expectedStatuses?: readonly number[];
  /** Set where the page has been given a token already. */
  readonly token?: string;
}

/** Opens a tab whose clock stands at the test server's time. */
export async function openPage(browser: Browser, options: PageOptions = {}): Promise<WatchedPage> {
  const { scheme = 'light', width = 1280, expectedStatuses = [], token } = options;
  const context = await browser.newContext({
    colorScheme: scheme,
    viewport: { width, height: 900 },
    timezoneId: 'Asia/Kathmandu',
    acceptDownloads: true,
  });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => {
    const failedRequest = /the server responded with a status of (\d+)/.exec(message.text());
    if (expectedStatuses.includes(Number(failedRequest?.[1]))) return;
    if (message.type() === 'error' || message.type() === 'warning') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(`uncaught: ${error.message}`));
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  const underWay = new Set<Request>();
  page.on('request', (request) => underWay.add(request));
  page.on('requestfinished', (request) => underWay.delete(request));
  page.on('requestfailed', (request) => underWay.delete(request));
  const settled = async (): Promise<void> => {
    do {
      const [request] = underWay;
      if (request !== undefined) await endOf(page, request);
      await page.evaluate(TWO_FRAMES);
    } while (underWay.size > 0);
  };
  await page.clock.install({ time: NOW });
  await page.addInitScript(NOTE_VIOLATIONS);
  if (token !== undefined) {
    const held = JSON.stringify(token);
    await page.addInitScript(`sessionStorage.setItem('meterfeed-token', ${held})`);
  }
  return { page, problems, settled };
}

/** What is drawn may ask for more. */
const TWO_FRAMES =
  'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))';

async function endOf(page: Page, request: Request): Promise<void> {
  const isIt = (ended: Request): boolean => ended === request;
  await Promise.race([
    page.waitForEvent('requestfinished', isIt),
    page.waitForEvent('requestfailed', isIt),
  ]);
}
