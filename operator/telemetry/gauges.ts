import { Gauge, type Registry } from 'prom-client';

/** Registers gauges whose values are read at each scrape. */
export function gaugesIn(
  registry: Registry,
): (name: string, help: string, read: () => number) => void {
  return (name, help, read) => {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: () => gauge.set(read()),
    });
  };
}

/**
 * Registers gauges with one label, whose samples are read from `current` at each scrape. There is
 * no sample where the value is undefined.
 */
export function gaugesBy<T>(
  registry: Registry,
  label: string,
  current: () => Iterable<readonly [labelValue: string | number, of: T]>,
): (name: string, help: string, value: (of: T) => number | undefined) => void {
  return (name, help, value) => {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      collect: () => {
        gauge.reset();
        for (const [labelValue, of] of current()) {
          const known = value(of);
          if (known !== undefined) gauge.set({ [label]: labelValue }, known);
        }
      },
    });
  };
}
