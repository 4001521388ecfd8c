import {
  AggregatorRegistry,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from 'prom-client';

/**
 * Registry with three parts: the metrics of the process, the metrics added here, and the metrics of
 * each stream with the label `cluster`.
 */
export class FleetRegistry extends Registry {
  readonly #own: Registry;
  readonly #streams = new Set<{ readonly source: string; readonly registry: Registry }>();

  constructor(own: Registry) {
    super();
    this.#own = own;
  }

  /**
   * Adds a stream's registry, which may have the same metric names as others. The returned function
   * removes it.
   */
  join(source: string, registry: Registry): () => void {
    const stream = { source, registry };
    this.#streams.add(stream);
    return () => void this.#streams.delete(stream);
  }

  /** Excludes the metrics of the streams. */
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
