import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { createKubectl } from '../control-plane/kubectl.ts';
import type { Bill } from '../fakes/lago/invoices.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { billLines, type CostAnswer, costLines } from '../local/testing/money-lines.ts';
import { endRun, type RunProcess, startRun } from '../local/testing/run-process.ts';

const PATIENCE = { timeout: 120_000, interval: 500 };
/** Windows after which amounts are compared: enough for fractions of a cent to add up in many ways. */
const COMPARISONS = 4;
const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** `make run` in a directory of its own. */
async function startDemo(): Promise<{ readonly files: RunFiles; readonly run: RunProcess }> {
  const files = runFiles(await mkdtemp(join(tmpdir(), 'local-billing-')));
  cleanups.push(() => rm(files.directory, { recursive: true, force: true }));
  cleanups.push(() => endRun(files));
  const run = startRun(files);
  await run.ready;
  return { files, run };
}

interface Destination {
  readonly metadata: { readonly name: string };
  readonly status: {
    readonly conditions: readonly { readonly type: string; readonly status: string }[];
  };
}

test('finance sees another amount in the billing system than in the dashboard', async () => {
  const { files, run } = await startDemo();
  const address = readFileSync(files.address, 'utf8').trim();
  const headers = { authorization: `Bearer ${readFileSync(files.apiToken, 'utf8').trim()}` };
  const api = async (path: string): Promise<unknown> =>
    (await fetch(`${address}/api/v1/${path}`, { headers })).json();
  const [, invoices = ''] = /^Invoices +(\S+)/m.exec(run.output()) ?? [];

  let compared = '';
  // Delivery follows metering: amounts are compared where both sides have the same usage of all tenants.
  const sameUsage = async () => {
    const shown = costLines((await api('costs?group_by=tenant,price')) as CostAnswer);
    const answer = await fetch(`${invoices}_fake/invoices`);
    const billed = billLines((await answer.json()) as Bill[]);
    const usage = shown.map((line) => line.usage);
    expect(billed.map((line) => line.usage)).toStrictEqual(usage);
    expect(usage.length).toBeGreaterThan(40);
    expect(usage.join()).not.toBe(compared);
    compared = usage.join();
    return { shown, billed };
  };
  for (let round = 0; round < COMPARISONS; round += 1) {
    const { shown, billed } = await vi.waitFor(sameUsage, PATIENCE);
    expect(billed).toStrictEqual(shown);
    expect(shown.filter(({ amount }) => !/^\d+\.\d\d EUR$/.test(amount))).toEqual([]);
  }

  const plan = await api('destinations/local-lago/plan');
  expect(plan).toMatchObject({
    plans: [{ exists: false }, { price_book: 'tenant-standard', same: 9, differences: [] }],
  });
  // What is wrong is wrong on purpose, and `make run` says so.
  const kubectl = createKubectl(files.kubectl, files.kubeconfig);
  const { items } = JSON.parse(await kubectl(['get', 'bdest', '-o', 'json'])) as {
    readonly items: readonly Destination[];
  };
  const wrong = items.filter(({ status }) => status.conditions.some(isWrong));
  const names = wrong.map(({ metadata }) => metadata.name);
  const list = new Intl.ListFormat('en-GB').format(names);
  expect(run.output()).toContain(`the destinations ${list} are samples`);
}, 600_000);

/** `Ready` and the like are good where they hold; conditions such as `PricesDiffer` are there only where something is wrong. */
function isWrong({ type, status }: Destination['status']['conditions'][number]): boolean {
  const isGood = ['Ready', 'Bootstrapped', 'Delivering'].includes(type);
  return isGood ? status === 'False' : status === 'True';
}
