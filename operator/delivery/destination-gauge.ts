import { Gauge, type Registry } from 'prom-client';

/** Registers a gauge with the label `destination`. Each scrape calls `current`. */
export function destinationGauge<T>(
  registry: Registry,
  { name, help }: { readonly name: string; readonly help: string },
  current: () => Iterable<readonly [destination: string, of: T]>,
  value: (of: T) => number,
): void {
  const gauge: Gauge<'destination'> = new Gauge({
    name,
    help,
    labelNames: ['destination'],
    registers: [registry],
    collect: () => {
      gauge.reset();
      for (const [destination, of] of current()) gauge.set({ destination }, value(of));
    },
  });
}
