import type { Destination } from '../destinations/destination.ts';
import type { CreateDestination } from '../destinations/registry.ts';
import { override } from '../model/override.ts';
import { isSuccess } from '../outbound/http-client.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { CauseLog } from '../telemetry/cause-log.ts';
import type { OtlpPost } from '../telemetry/otlp/otlp.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { OperatorOptions } from './build-context.ts';
import { aborted, type Component } from './components.ts';

const TIMEOUTS = { connect: 5_000, headers: 10_000, body: 5_000, total: 10_000 };

/**
 * Starts the export of metrics and traces if a collector is configured. Otherwise it loads nothing
 * of OpenTelemetry and returns no tracer.
 */
export async function exportTelemetry(
  options: Pick<
    OperatorOptions,
    'environment' | 'registry' | 'clock' | 'logger' | 'version' | 'instance'
  >,
  outbound: Outbound,
): Promise<{ readonly tracer?: Tracer; readonly components: readonly Component[] }> {
  const { environment, registry, clock, logger, version, instance } = options;
  if (environment.otlp === undefined) return { components: [] };
  const { endpoint, headers, intervalMs } = environment.otlp;
  const client = outbound.client({ name: 'otlp', baseUrl: endpoint, timeouts: TIMEOUTS });
  const extra = Object.fromEntries([...headers].map(([name, secret]) => [name, secret.reveal()]));
  const post: OtlpPost = async (path, body) => {
    const outcome = await client.request({
      method: 'POST',
      path,
      headers: { ...extra, 'content-type': 'application/json' },
      body,
    });
    if (outcome.kind === 'failed') return outcome.reason;
    if (isSuccess(outcome.status)) return undefined;
    return `HTTP POST ${path}: status ${outcome.status}`;
  };
  const log = new CauseLog(logger, clock);
  const { startOtlp } = await import('../telemetry/otlp/otlp.ts');
  const otlp = startOtlp({
    registry,
    clock,
    post,
    intervalMs,
    resource: {
      'service.name': 'meterfeed',
      'service.version': version,
      'service.instance.id': instance,
      'k8s.cluster.name': environment.identity.clusterName,
    },
    onFailure: (reason) => log.warn(reason, `[metrics] not exported: ${reason}`),
  });
  const component: Component = {
    name: 'telemetry export',
    run: async (signal) => {
      await aborted(signal);
      await otlp.close();
      await client.close();
    },
  };
  return { tracer: otlp.tracer, components: [component] };
}

/** Wraps destinations so that each delivery is traced. */
export function tracedDestinations(create: CreateDestination, tracer: Tracer): CreateDestination {
  return (settings) => {
    const made = create(settings);
    return made.kind === 'created'
      ? { ...made, destination: traced(made.destination, tracer) }
      : made;
  };
}

function traced(destination: Destination, tracer: Tracer): Destination {
  const { name, type } = destination;
  return override<Destination>(destination, {
    send: async (events, signal) => {
      const span = tracer.begin('delivery', { destination: name, type, events: events.length });
      const outcomes = await destination.send(events, signal);
      const delivered = outcomes.filter(({ kind }) => kind === 'delivered').length;
      const failed = outcomes.find((outcome) => outcome.kind !== 'delivered');
      span.end({ delivered }, failed?.reason);
      return outcomes;
    },
  });
}
