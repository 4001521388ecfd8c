import { Counter, type Registry } from 'prom-client';

/** Counts the ends of the thread that reads tenant APIs, each of which had a cause in one of them. */
export function countReaderDeaths(registry: Registry): () => void {
  const deaths = new Counter({
    name: 'meterfeed_tenant_reader_deaths_total',
    help: 'Ends of the thread that reads tenant APIs: out of memory, too slow, or a defect',
    registers: [registry],
  });
  return () => deaths.inc();
}
