import type { Registry } from 'prom-client';
import { gaugesBy, gaugesIn } from '../../telemetry/gauges.ts';
import type { HubStreams } from './hub-streams.ts';

/** Metrics for alerts about the meters of a hub's streams, read at each scrape. */
export function createFleetMetrics(registry: Registry, streams: HubStreams): void {
  const total = gaugesIn(registry);
  const ofEach = gaugesBy(registry, 'cluster', () =>
    streams.list().map((stream) => [stream.source, stream]),
  );
  total('meterfeed_fleet_streams', 'Streams that this hub reads.', () => streams.list().length);
  total(
    'meterfeed_fleet_problems',
    'Databases and streams that this hub cannot read.',
    () => streams.problems().length,
  );
  ofEach(
    'meterfeed_fleet_meter_silent_seconds',
    'Seconds since the meter of a stream reported anything new.',
    ({ watch }) => {
      const ms = watch.silentMs();
      return ms === undefined ? undefined : ms / 1_000;
    },
  );
  ofEach(
    'meterfeed_fleet_gap_seconds',
    'Seconds within RETENTION that the meter of a stream could not measure and has not filled.',
    ({ watch }) => watch.gaps().reduce((sum, { from, to }) => sum + (to - from), 0) / 1_000,
  );
}
