import { createHttpServer, type HttpServerOptions } from '../http/server.ts';
import type { Views } from '../http/views.ts';
import { createOutbound } from '../outbound/outbound.ts';
import type { LeaderContext, StreamContext } from './build-context.ts';
import type { CustomResources } from './custom-resources.ts';
import { exportTelemetry } from './otlp.ts';
import { aborted, type Component } from './components.ts';

/** Adds the outbound clients to the context. `components` close them. */
export async function reachOut<T extends LeaderContext>(
  leader: T,
  customResources: CustomResources,
): Promise<{ readonly context: T & StreamContext; readonly components: readonly Component[] }> {
  const { registry, clock, version } = leader;
  const outbound = createOutbound({ registry, clock, userAgent: `meterfeed/${version}` });
  const { tracer, components } = await exportTelemetry(leader, outbound);
  return { context: { ...leader, outbound, customResources, tracer }, components };
}

/**
 * Answers HTTP requests, and signs with the keys of the portal. Stop it before the components whose
 * data it shows.
 */
export function httpComponent(
  { front, clock, logger, version, registry: metrics }: LeaderContext,
  served: Pick<HttpServerOptions, 'views' | 'ledger' | 'totals' | 'streams'>,
) {
  const http = createHttpServer({ ...served, front, clock, logger, version, metrics });
  return {
    name: 'HTTP server',
    signStatement: http.signStatement,
    run: async (signal: AbortSignal): Promise<void> => {
      await http.listen(signal);
      await aborted(signal);
      await http.close();
    },
  };
}

const READY_POLL_MS = 500;
/** Longest wait for the removal. If it fails, the standby removes the label later. */
const REMOVE_MS = 2_000;

/** Sets the leader label on the own pod once all is ready. Removes it before the others end. */
export function labelComponents(
  { label, clock }: LeaderContext,
  readiness: Views['readiness'],
): readonly Component[] {
  if (label === undefined) return [];
  const run = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted && readiness().some(({ ok }) => !ok)) {
      await clock.sleep(READY_POLL_MS, signal).catch(() => undefined);
    }
    await label.set(signal);
    await aborted(signal);
    await label.remove(AbortSignal.timeout(REMOVE_MS));
  };
  return [{ name: 'label', run }];
}
