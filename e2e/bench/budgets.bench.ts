import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pLimit from 'p-limit';
import { Balances, type Suspension } from './budgets/balances.ts';
import { quantile } from './quantile.ts';
import { putCustomResource } from './scale/custom-resource.ts';
import { measureScale, type ScaleFigures } from './scale/measure.ts';

/**
 * What budgets cost and how soon they act, with the operator as it is shipped on the stand-in of the scale bench: first without
 * budgets, then with a prepaid balance for every tenant, in money. After the measured windows some balances are used up, one after the
 * other for a window and a half, so that windows are closed meanwhile.
 */
const { values } = parseArgs({
  options: {
    tenants: { type: 'string', default: '1000' },
    pods: { type: 'string', default: '100000' },
    nodes: { type: 'string', default: '2000' },
    /** Seconds; a divisor of an hour. */
    window: { type: 'string', default: '60' },
    /** How many windows are measured, without and with budgets. */
    windows: { type: 'string', default: '2' },
    /** Changes a second. */
    changes: { type: 'string', default: '75' },
    /** Of how many tenants the balance is used up. */
    suspended: { type: 'string', default: '200' },
    /** What CPU and memory are billed by: `usage`, as by default, or `requests`. */
    basis: { type: 'string', default: 'usage' },
    /** `--no-compare` measures with budgets only, in half of the time. */
    compare: { type: 'boolean', default: true },
  },
  allowNegative: true,
});
const tenants = positive('tenants', values.tenants);
const size = {
  tenants,
  pods: positive('pods', values.pods),
  nodes: positive('nodes', values.nodes),
};
const windowSeconds = positive('window', values.window);
const windows = positive('windows', values.windows);
const changesPerSecond = positive('changes', values.changes);
const suspended = Math.min(tenants, positive('suspended', values.suspended));
const of = `${tenants} tenants, ${size.pods} pods, windows of ${windowSeconds} s, ${values.basis}`;

/** What is promised (docs/how-to/budgets.md#at-the-limit). */
const MARKED_SECONDS = 5;
const CREDITS_AT_ONCE = 8;
const CURRENCY = 'EUR';
/** Lasts for days, and for less than the month that a balance is looked ahead. */
const CREDIT = '50';
const TOKEN = 'bench-token-0123456789';
const ENVIRONMENT = {
  API_TOKEN: TOKEN,
  ENFORCEMENT_MODE: 'enforce',
  CPU_MEMORY_BASIS: values.basis,
};
const PRICE_BOOK = {
  currency: CURRENCY,
  prices: Object.entries({
    tenant_cpu_core_hours: '0.035',
    tenant_memory_gb_hours: '0.004',
    tenant_storage_gb_hours: '0.0001',
    tenant_instance_hours: '0.05',
    tenant_lb_hours: '0.02',
  }).map(([metric, amount]) => ({
    name: metric.replaceAll('_', '-'),
    metric,
    rates: [{ from: '2020-01-01', amount }],
  })),
};
const POLICY = {
  defaultBudget: { amount: CREDIT, currency: CURRENCY, period: 'prepaid', atLimit: 'suspend' },
};

const without = values.compare ? await inDirectory(measureWithout) : undefined;
const { figures, suspensions } = await inDirectory(measureWithBudgets);
if (without !== undefined) {
  const { cpuSecondsPerWindow, rssMiB } = without;
  const added = figures.cpuSecondsPerWindow - cpuSecondsPerWindow;
  print('cpu_seconds_added_per_window', added, 's');
  print('rss_mib_added', figures.rssMiB - rssMiB, 'MiB');
}
print('cpu_seconds_per_window', figures.cpuSecondsPerWindow, 's');
print('rss_mib', figures.rssMiB, 'MiB');
const done = suspensions.filter(({ isSuspended }) => isSuspended).length;
const late = quantile(
  suspensions.map(({ lateSeconds }) => lateSeconds),
  0.99,
);
print('suspended', done, 'tenants');
print('mark_p99_seconds', late, 's');
if (done < suspended || late > MARKED_SECONDS) {
  console.error(
    `budgets: ${suspended} namespaces were to be marked, each within ${MARKED_SECONDS} s`,
  );
  process.exitCode = 1;
}

function measureWithout(directory: string): Promise<ScaleFigures> {
  const environment = ENVIRONMENT;
  return measureScale({ size, windowSeconds, windows, changesPerSecond, directory, environment });
}

async function measureWithBudgets(directory: string): Promise<{
  readonly figures: ScaleFigures;
  readonly suspensions: readonly Suspension[];
}> {
  let port = 0;
  let isCredited = false;
  let suspensions: readonly Suspension[] = [];
  const balances = (address: string): Balances =>
    new Balances({ address, token: TOKEN, currency: CURRENCY, apiPort: port });
  const figures = await measureScale({
    size,
    windowSeconds,
    windows,
    changesPerSecond,
    directory,
    environment: ENVIRONMENT,
    prepare: async (apiPort) => {
      port = apiPort;
      await putCustomResource(port, 'PriceBook', 'pricebooks/tenant-standard', PRICE_BOOK);
    },
    settled: async (address) => {
      if (!isCredited) {
        await creditAll(balances(address));
        // Only now: who has a budget and no credit is suspended.
        await putCustomResource(port, 'MeteringPolicy', 'meteringpolicies/default', POLICY);
        isCredited = true;
      }
      return await balances(address).isCounted(tenants - 1);
    },
    inspect: async (address) => {
      suspensions = await useUp(balances(address));
    },
  });
  return { figures, suspensions };
}

async function creditAll(balances: Balances): Promise<void> {
  const limit = pLimit(CREDITS_AT_ONCE);
  await Promise.all(
    Array.from({ length: tenants }, (_, tenant) =>
      limit(() => balances.credit(tenant, 'first', CREDIT)),
    ),
  );
}

function useUp(balances: Balances): Promise<readonly Suspension[]> {
  const spreadMs = 1500 * windowSeconds;
  return Promise.all(
    Array.from({ length: suspended }, async (_, index) => {
      await delay((spreadMs * index) / suspended);
      return await balances.useUp(Math.floor((index * tenants) / suspended));
    }),
  );
}

async function inDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'budgets-bench-'));
  try {
    return await work(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function print(figure: string, value: number, unit: string): void {
  const rounded = Number(value.toPrecision(4));
  console.log(JSON.stringify({ bench: 'budgets', figure, value: rounded, unit, of }));
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value <= 0) {
    console.error(`bench: budgets: --${name}: give a whole number above 0: "${text}"`);
    process.exit(2);
  }
  return value;
}
