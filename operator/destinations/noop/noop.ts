import type { Destination, DestinationContext } from '../destination.ts';

const BATCH_EVENTS = 500;

/** Discards every event; at log level debug it says which. */
export function createNoop(name: string, { logger }: DestinationContext): Destination {
  const done = async () => ({ kind: 'done' }) as const;
  return {
    name,
    type: 'noop',
    limits: { batchEvents: BATCH_EVENTS, negativeQuantities: true },
    accepts: () => true,
    bootstrap: done,
    provision: done,
    send: async (events) => {
      for (const { tenant, metric, quantity } of events) {
        logger.debug(`[${name}] event tenant=${tenant} metric=${metric} quantity=${quantity}`);
      }
      return events.map(() => ({ kind: 'delivered' }) as const);
    },
    offboard: done,
    close: async () => undefined,
  };
}
