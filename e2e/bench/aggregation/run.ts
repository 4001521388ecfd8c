import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { destinationClaims } from '../../../operator/controllers/destination-status.ts';
import type { Delivery } from '../../../operator/delivery/delivery.ts';
import { createDelivery } from '../../../operator/delivery/delivery-engine.ts';
import { createRateWatch, type Rate } from '../../../operator/delivery/operations/rate-watch.ts';
import { createDestinationRegistry } from '../../../operator/destinations/registry.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import { openTestLedger, silentLogger } from '../../../operator/ledger/testing/level-ledger.ts';
import { buildCatalog } from '../../../operator/model/catalog.ts';
import { omitUndefined } from '../../../operator/model/omit-undefined.ts';
import { Secret } from '../../../operator/model/secret.ts';
import { createOutbound } from '../../../operator/outbound/outbound.ts';
import { type Exact, exact, plus, textOf, ZERO } from '../../fakes/exact.ts';
import { type FakeStripe, startFakeStripe } from '../../fakes/stripe/stripe.ts';
import { createIdleClock, type IdleClock } from '../../faults/subject/idle-clock.ts';
import { createSeries, SETTLING_MS, type SeriesSet, WINDOW_MS } from './series.ts';
import { ledgerDuring, outboundDuring } from './while-time-stands.ts';

const NAME = 'stripe';
const API_KEY = 'sk_test_bench';
const HOUR_MS = 3_600_000;
const WINDOWS_AN_HOUR = HOUR_MS / WINDOW_MS;
/** On the hour, and far from the end of a billing period. */
const BEGINNING = Date.UTC(2026, 10, 5, 9, 0, 0);
/** The last hour is through by then, where delivery keeps up. */
const AFTERWARDS_MINUTES = 30;

export interface RunOptions {
  readonly aggregate: '1h' | 'none';
  readonly series: number;
  readonly hours: number;
  /** What the stand-in takes of all requests together; delivery keeps to it. */
  readonly requestsPerSecond: number;
}

export interface HourLag {
  /** Seconds; the most. */
  readonly highest: number;
  /** Minutes in which it was more than a minute. */
  readonly minutesBehind: number;
}

export interface RunFigures {
  /** Of each hour, sampled every minute; with aggregation the last entry is the half hour after all usage. */
  readonly lags: readonly HourLag[];
  /** Seconds, in the end. */
  readonly lastLag: number;
  readonly requests: number;
  /** Of them, refused for coming too fast. */
  readonly refused: number;
  readonly meterEvents: number;
  readonly rate: Rate | undefined;
  /** The message of the condition `RateLimitTooLow`. */
  readonly tooLow: string | undefined;
  /** What the meters have, and what the ledger has: exact decimal text. */
  readonly billed: string;
  readonly used: string;
}

/**
 * Series of usage in windows of a minute go through the ledger on disk and the delivery engine to a stand-in that
 * refuses what comes too fast. All of them have one clock, on which time passes only while everybody waits for it,
 * and then at once: hours take minutes, and a request takes no time but what the rate limit makes it wait.
 */
export async function measureDelivery(options: RunOptions): Promise<RunFigures> {
  const { aggregate, series, hours, requestsPerSecond } = options;
  const directory = await mkdtemp(join(tmpdir(), 'aggregation-bench-'));
  const clock = createIdleClock({ elapsed: 0, stepped: 0 }, () => undefined, BEGINNING);
  clock.run();
  const stripe = await startFakeStripe({
    apiKey: API_KEY,
    now: () => clock.now(),
    requestsPerSecond,
    keepsRequests: false,
  });
  const set = createSeries(series, BEGINNING);
  await priceMeters(stripe, clock, set);
  const ledger = ledgerDuring(clock, await openTestLedger(directory, { clock }));
  const registry = new Registry();
  const delivery = createSubject(ledger, clock, set, registry);
  const stopping = new AbortController();
  const rates = createRateWatch(ledger, clock);
  const running = [delivery.run(stopping.signal), rates.run(stopping.signal)];
  const lagNow = (): number => delivery.status(NAME)?.lagSeconds ?? 0;
  try {
    await delivery.apply([settingsFor(stripe, options)]);
    const lags: HourLag[] = [];
    let used = ZERO;
    for (let window = 0; window < hours * WINDOWS_AN_HOUR; window += 1) {
      const end = BEGINNING + (window + 1) * WINDOW_MS;
      const events = set.windowOf(end - WINDOW_MS);
      await clock.sleep(Math.max(0, end + SETTLING_MS - clock.now()));
      const outcome = await ledger.append({ events, windowEnd: end });
      if (outcome.kind !== 'appended') throw new Error(outcome.message);
      for (const { quantity } of events) used = plus(used, exact(quantity));
      const hour = Math.floor(window / WINDOWS_AN_HOUR);
      lags[hour] = withSample(lags[hour], lagNow());
    }
    const status = delivery.status(NAME);
    if (status === undefined) throw new Error('no such destination');
    const progress = { ...status, ...omitUndefined({ tooSlow: rates.tooSlow(status) }) };
    const specStatus = { kind: 'accepted' } as const;
    const claims = destinationClaims({ specStatus, suspended: false, progress });
    const rate = rates.rateOf(status);
    const afterwards = aggregate === '1h' ? AFTERWARDS_MINUTES : 0;
    for (let minute = 0; minute < afterwards; minute += 1) {
      await clock.sleep(WINDOW_MS);
      lags[hours] = withSample(lags[hours], lagNow());
    }
    return {
      lags,
      lastLag: lagNow(),
      ...(await requestsIn(registry)),
      meterEvents: stripe.state.events.length,
      rate,
      tooLow: claims.find(({ type }) => type === 'RateLimitTooLow')?.message,
      billed: textOf(
        stripe.state.events.reduce<Exact>((sum, { value }) => plus(sum, exact(value)), ZERO),
      ),
      used: textOf(used),
    };
  } finally {
    stopping.abort();
    await Promise.all(running);
    clock.stop();
    await ledger.close();
    await stripe.close();
    await rm(directory, { recursive: true, force: true });
  }
}

function withSample(before: HourLag | undefined, lag: number): HourLag {
  const { highest, minutesBehind } = before ?? { highest: 0, minutesBehind: 0 };
  const isBehind = lag > WINDOW_MS / 1000;
  return {
    highest: Math.max(highest, lag),
    minutesBehind: minutesBehind + Number(isBehind),
  };
}

/** A price for the meter of each SKU, as an operator sets them. */
async function priceMeters(
  stripe: FakeStripe,
  clock: IdleClock,
  { skus }: SeriesSet,
): Promise<void> {
  const post = async (path: string, form: Record<string, string>): Promise<string> => {
    const answer = await fetch(`${stripe.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}` },
      body: new URLSearchParams(form),
    });
    const { id } = (await answer.json()) as { readonly id?: string };
    if (id === undefined) throw new Error(`${path}: ${answer.status}`);
    return id;
  };
  for (const sku of skus) {
    const meter = await post('/v1/billing/meters', {
      display_name: sku,
      event_name: `tenant_gpu_hours__${sku.replaceAll('-', '_')}`,
      'default_aggregation[formula]': 'sum',
    });
    await post('/v1/prices', {
      currency: 'usd',
      'product_data[name]': sku,
      unit_amount_decimal: '250',
      'recurring[interval]': 'month',
      'recurring[usage_type]': 'metered',
      'recurring[meter]': meter,
      'metadata[vbilling_plan]': 'tenant-standard',
    });
    // The stand-in's limit counts these requests, too.
    await clock.sleep(1_000);
  }
}

function settingsFor({ url }: FakeStripe, { aggregate, requestsPerSecond }: RunOptions) {
  const options = {
    url,
    apiKey: new Secret(API_KEY),
    apiVersion: '2026-09-30.endive',
    splitMetersBy: ['sku'],
    autoSubscribe: false,
    billingDay: 1,
    cancelOnRemove: false,
    maxRequestsPerSecond: requestsPerSecond,
    planCode: 'tenant-standard',
    currency: 'USD',
  };
  const common = { name: NAME, type: 'stripe', suspend: false, startFrom: 'earliest' } as const;
  return { ...common, aggregate, options };
}

function createSubject(
  ledger: Ledger,
  clock: IdleClock,
  { tenants }: SeriesSet,
  registry: Registry,
): Delivery {
  const built = buildCatalog([]);
  if (built.kind === 'invalid') throw new Error(built.problems.join());
  const logger = silentLogger;
  const real = createOutbound({ registry, clock, userAgent: 'meterfeed/bench' });
  const outbound = outboundDuring(clock, real);
  return createDelivery({
    ledger,
    clock,
    registry,
    random: Math.random,
    logger,
    maxBackfillMs: () => 6 * HOUR_MS,
    catalog: () => built.catalog,
    tenants: { find: (id) => tenants.get(id), subscribe: () => () => undefined },
    createDestination: createDestinationRegistry({ outbound, clock, logger }),
  });
}

async function requestsIn(registry: Registry): Promise<Pick<RunFigures, 'requests' | 'refused'>> {
  const metric = await registry.getSingleMetric('meterfeed_outbound_requests_total')?.get();
  const values = metric?.values ?? [];
  const sum = (wanted: typeof values): number => wanted.reduce((all, { value }) => all + value, 0);
  return {
    requests: sum(values),
    refused: sum(values.filter(({ labels }) => labels['code'] === '429')),
  };
}
