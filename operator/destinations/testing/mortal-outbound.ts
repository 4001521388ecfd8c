import type { Outbound } from '../../outbound/outbound.ts';

/** The network of a process that may end at any of its requests: from then on nothing it does has an effect. */
export interface MortalOutbound {
  readonly outbound: Outbound;
  /** Resolves when it has died. */
  readonly died: Promise<'died'>;
}

/**
 * Dies after so many awaits. Each request counts twice, before and after its effect, so that it may die with the effect
 * done and nobody told.
 */
export function createMortalOutbound(inner: Outbound, awaits: number): MortalOutbound {
  let left = awaits;
  const { promise: died, resolve } = Promise.withResolvers<'died'>();
  const pass = async (): Promise<void> => {
    left -= 1;
    if (left > 0) return;
    resolve('died');
    await new Promise<never>(() => undefined);
  };
  return {
    died,
    outbound: {
      ...inner,
      client: (options) => {
        const client = inner.client(options);
        return {
          request: async (request) => {
            await pass();
            const outcome = await client.request(request);
            await pass();
            return outcome;
          },
          close: () => client.close(),
        };
      },
    },
  };
}
