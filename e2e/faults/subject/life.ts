import { Registry } from 'prom-client';
import { Delivery } from '../../../operator/delivery/delivery.ts';
import type { Ledger, OpenLedgerOutcome } from '../../../operator/ledger/ledger.ts';
import { openLevelLedger } from '../../../operator/ledger/leveldb/open-level-ledger.ts';
import { silentLogger } from '../../../operator/ledger/testing/level-ledger.ts';
import { buildCatalog } from '../../../operator/model/catalog.ts';
import { CREDIT_KEYS } from '../balances.ts';
import { faultDestination } from '../destinations.ts';
import { createRandom } from '../random.ts';
import { TENANT_IDS, tenantOf, WINDOW_MS } from '../workload.ts';
import { copyQuietDirectory } from './copy-directory.ts';
import { createBalances } from './balances.ts';
import { createDestinations } from './create-destinations.ts';
import { createIdleClock, type IdleClock } from './idle-clock.ts';
import type { End, LifeOptions, LifeOrder } from './messages.ts';
import { createMortal } from './mortal.ts';
import { createMortality, type Mortality } from './mortality.ts';
import { createScript } from './script.ts';
import { readLedger } from './read-ledger.ts';

const RESERVE_BYTES = 64 * 1024;
const HOUR_MS = 3_600_000;
const FOREVER = new Promise<never>(() => undefined);

/** The operator from its start to its end: ledger and delivery, driven by a script. */
export async function live(options: LifeOptions): Promise<End> {
  const { order, disk, report } = options;
  const clock = createIdleClock(order.start, (moment) => report({ kind: 'passed', ...moment }));
  const mortality = createMortality(order.death);
  const closers: Closer[] = [];
  disk.repair();
  if (order.failingSync !== undefined) disk.failSync(order.failingSync, 1);
  clock.run();
  const end = await Promise.race([
    run(options, clock, mortality, closers),
    buried(options, mortality, closers),
  ]);
  clock.stop();
  return end;
}

type Closer = () => Promise<void>;

/** Waits for death, keeps what it leaves, and lets go of the rest. */
async function buried(
  { order, disk }: LifeOptions,
  mortality: Mortality,
  closers: readonly Closer[],
): Promise<End> {
  const where = await mortality.died;
  const traced = await copyQuietDirectory(order.directory, order.heir, () => disk.traced());
  mortality.release();
  for (const close of closers) await close();
  return { how: 'died', where, reported: [], directory: order.heir, traced };
}

async function run(
  options: LifeOptions,
  clock: IdleClock,
  mortality: Mortality,
  closers: Closer[],
): Promise<End> {
  const { order, disk } = options;
  const { directory } = order;
  const opening = clock.during(() => open(options, clock, mortality));
  closers.push(async () => {
    const opened = await opening;
    if (opened.kind === 'opened') await opened.ledger.close();
  });
  const opened = await opening;
  if (mortality.dead) return FOREVER;
  if (opened.kind === 'failed') {
    const { message: where, cause } = opened;
    return { how: 'unopened', where, cause, reported: [], directory, traced: disk.traced() };
  }
  const mortal = createMortal(mortality, clock);
  const ledger = mortal.ledger(opened.ledger, order);
  const destinations = createDestinations(order, mortal, clock);
  closers.push(() => destinations.close());
  const delivery = startDelivery(order, ledger, clock, destinations.create);
  const balances = order.budgets
    ? createBalances({ ledger, clock, tenants: TENANT_IDS, windowMs: WINDOW_MS })
    : undefined;
  const script = createScript({ ...options, ledger, delivery, clock, balances });
  const failure = await script.run();
  const stuck = order.last && failure === undefined ? await script.drain() : undefined;
  if (order.last && failure === undefined) for (const _ of CREDIT_KEYS) await balances?.round();
  const found = order.inspect
    ? await clock.during(() => readLedger(opened.ledger, delivery, balances?.read()))
    : { reported: opened.ledger.stats().problems };
  if (mortality.dead) return FOREVER;
  await delivery.close();
  for (const close of closers) await close();
  return {
    how: failure === undefined ? (stuck === undefined ? 'completed' : 'stuck') : 'stopped',
    where: failure?.message ?? stuck ?? '',
    ...(failure !== undefined && { cause: failure.cause }),
    reported: found.reported,
    directory,
    traced: disk.traced(),
    ...('ledger' in found && { ledger: found.ledger }),
  };
}

function open(
  { order, disk }: LifeOptions,
  clock: IdleClock,
  mortality: Mortality,
): Promise<OpenLedgerOutcome> {
  return openLevelLedger({
    directory: order.directory,
    retentionMs: order.retentionMs,
    clock,
    logger: silentLogger,
    reserveBytes: RESERVE_BYTES,
    segmentLimits: { events: order.segmentEvents, bytes: Number.MAX_SAFE_INTEGER },
    freeBytes: async () => disk.freeBytes(),
    failpoint: (step) => mortality.within(step),
  });
}

function startDelivery(
  order: LifeOrder,
  ledger: Ledger,
  clock: IdleClock,
  createDestination: ReturnType<typeof createDestinations>['create'],
): Delivery {
  const built = buildCatalog([]);
  if (built.kind === 'invalid') throw new Error(built.problems.join());
  const random = createRandom(order.seed);
  const delivery = new Delivery({
    ledger,
    clock,
    random: () => random.fraction(),
    logger: silentLogger,
    registry: new Registry(),
    maxBackfillMs: () => 6 * HOUR_MS,
    catalog: () => built.catalog,
    tenants: { find: tenantOf, subscribe: () => () => undefined },
    createDestination,
  });
  void delivery.run(new AbortController().signal);
  void delivery.apply(
    order.destinations.map(({ name, url }) => faultDestination(name).settings(url)),
  );
  return delivery;
}
