import {
  AggregatorRegistry,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from 'prom-client';

/**
 * The metrics of the process, those that are added to this registry, and those of each stream with its name as the label
 * `cluster`.
 */
export class FleetRegistry extends Registry {
  readonly #own: Registry;
  readonly #streams = new Set<{ readonly source: string; readonly registry: Registry }>();

  constructor(own: Registry) {
    super();
    this.#own = own;
  }

  /** Shows the metrics of a stream, which has its own of every name. Ends with the returned function. */
  join(source: string, registry: Registry): () => void {
    const stream = { source, registry };
    this.#streams.add(stream);
    return () => void this.#streams.delete(stream);
  }

  /** Without those of the streams. */
  override async getMetricsAsJSON(): Promise<MetricObjectWithValues<MetricValue<string>>[]> {
    return [...(await this.#own.getMetricsAsJSON()), ...(await super.getMetricsAsJSON())];
  }

  override async metrics(): Promise<string> {
    const all = await Promise.all(
      [...this.#streams].map(async ({ source, registry }) =>
        (await registry.getMetricsAsJSON()).map((metric) => ({
          ...metric,
          values: metric.values.map((value) => ({
            ...value,
            labels: { cluster: source, ...value.labels },
          })),
        })),
      ),
    );
    const texts = await Promise.all([
      this.#own.metrics(),
      super.metrics(),
      AggregatorRegistry.aggregate(all).metrics(),
    ]);
    return `${texts.map((text) => text.trimEnd()).join('\n')}\n`;
  }
}
