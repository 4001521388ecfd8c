import { createHttpServer, type HttpServerOptions } from '../http/server.ts';
import type { Views } from '../http/views.ts';
import { createOutbound } from '../outbound/outbound.ts';
import type { LeaderContext, StreamContext } from './build-context.ts';
import type { CustomResources } from './custom-resources.ts';
import { exportTelemetry } from './otlp.ts';
import { aborted, type Component } from './components.ts';

/** With the ways out of the process, which `parts` close. */
export async function reachOut<T extends LeaderContext>(
  leader: T,
  customResources: CustomResources,
): Promise<{ readonly context: T & StreamContext; readonly components: readonly Component[] }> {
  const { registry, clock, version } = leader;
  const outbound = createOutbound({ registry, clock, userAgent: `meterfeed/${version}` });
  const { tracer, components } = await exportTelemetry(leader, outbound);
  return { context: { ...leader, outbound, customResources, tracer }, components };
}

/** Answers requests. Ended after what it shows, which is there as long as it answers. */
export function httpPart(
  { front, clock, logger, version, registry: metrics }: LeaderContext,
  served: Pick<HttpServerOptions, 'views' | 'ledger' | 'totals' | 'streams'>,
): Component {
  const http = createHttpServer({ ...served, front, clock, logger, version, metrics });
  return {
    name: 'HTTP server',
    run: async (signal) => {
      await http.listen(signal);
      await aborted(signal);
      await http.close();
    },
  };
}

const READY_POLL_MS = 500;
/** What cannot be removed in this time is removed while the process stands by. */
const REMOVE_MS = 2_000;

/** Puts the label of the leader on the own pod once all is ready, and takes it off before anything else ends. */
export function labelParts(
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
