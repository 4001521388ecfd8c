import { setTimeout as delay } from 'node:timers/promises';
import type { DestinationSettings } from '../../operator/settings/settings.ts';
import type { KafkaSettings } from '../../operator/destinations/kafka/settings.ts';
import {
  type LiveDelivery,
  startLiveDelivery,
} from '../../operator/delivery/testing/live-delivery.ts';
import type { Ledger } from '../../operator/ledger/ledger.ts';
import { TEST_WINDOW_START, testWindow } from '../../operator/ledger/testing/events.ts';
import type { UsageEvent } from '../../operator/model/event.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';

/** The engine with one destination, fed window after window. */
export interface Load extends LiveDelivery {
  /** Everything that was put into the ledger, in its order. */
  readonly events: readonly UsageEvent[];
  /** From a window's append until its last event was acknowledged, milliseconds, in order. */
  readonly delays: readonly number[];
  /** One window with an event for each of `tenants`. */
  append(tenants: number): Promise<void>;
  /** Resolves when everything is behind the cursor. */
  drained(patienceMs: number): Promise<void>;
}

const POLL_MS = 5;

export async function startLoad(ledger: Ledger, settings: DestinationSettings): Promise<Load> {
  const live = await startLiveDelivery({ ledger, clock: systemClock, destinations: [settings] });
  const events: UsageEvent[] = [];
  const delays: number[] = [];
  /** Positions that are not delivered yet, and since when. */
  const open: { readonly head: number; readonly since: number }[] = [];
  const cursor = (): number => live.delivery.status(settings.name)?.cursor ?? 0;
  const poll = setInterval(() => {
    while ((open[0]?.head ?? Number.POSITIVE_INFINITY) <= cursor()) {
      delays.push(performance.now() - (open.shift()?.since ?? 0));
    }
  }, POLL_MS);
  let windows = 0;
  return {
    ...live,
    events,
    delays,
    append: async (tenants) => {
      const window = testWindow(TEST_WINDOW_START + windows * 60_000, tenants);
      windows += 1;
      events.push(...window);
      const outcome = await ledger.append({ events: window });
      if (outcome.kind === 'failed') throw new Error(outcome.message);
      open.push({ head: ledger.head(), since: performance.now() });
    },
    drained: async (patienceMs) => {
      const deadline = performance.now() + patienceMs;
      while (open.length > 0) {
        if (performance.now() > deadline) {
          throw new Error(`not delivered in time: ${live.lines.slice(-5).join('\n')}`);
        }
        await delay(POLL_MS);
      }
    },
    stop: async () => {
      clearInterval(poll);
      await live.stop();
    },
  };
}

/** A destination without encryption or login. */
export function kafkaSettings(
  addresses: readonly string[],
  change: Partial<KafkaSettings> = {},
): DestinationSettings {
  const options: KafkaSettings = {
    brokers: addresses.map((address) => {
      const [host = '', port = ''] = address.split(':');
      return { host, port: Number(port) };
    }),
    topic: 'usage',
    contentMode: 'binary',
    tls: false,
    source: 'control-plane',
    ...change,
  };
  return { name: 'kafka', type: 'kafka', suspend: false, startFrom: 'earliest', options };
}
