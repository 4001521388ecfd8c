import { on } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { startBenchMeter } from './meter.ts';
import type { Closed, Crew, Order } from './meters.ts';

/*
 * The meters of some clusters, as a program of its own: of fifty in one, each would wait for the collections of the
 * heap of all, and for what the others compute.
 */
const { sources, ...plan } = JSON.parse(process.argv[2] ?? '') as Crew;
const meters = await Promise.all(sources.map((source) => startBenchMeter({ ...plan, source })));

const orders = on(process, 'message') as AsyncIterable<readonly [order: Order]>;
process.on('disconnect', () => process.exit());
process.send?.([]);
for await (const [order] of orders) process.send?.(await obey(order));

async function obey(order: Order): Promise<readonly Closed[]> {
  if (order.kind === 'close') return close(order.end, order.afterMs);
  if (order.kind === 'stop') {
    await Promise.all(meters.map((meter) => meter.stop()));
    return [];
  }
  for (const meter of meters) {
    meter.prepare(order.end);
    // The reports of other meters are written meanwhile.
    await delay(0);
  }
  return [];
}

function close(end: number, afterMs: readonly number[]): Promise<readonly Closed[]> {
  return Promise.all(
    meters.map(async (meter, index) => {
      await delay(afterMs[index] ?? 0);
      await meter.close();
      return { source: meter.source, end, at: Date.now() };
    }),
  );
}
