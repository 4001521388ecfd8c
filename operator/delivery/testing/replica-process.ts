/**
 * A process of its own that feeds webhooks from a stream which others feed as well, as one of several replicas. Arguments:
 * port and name of the database, where the webhooks are, their names divided by commas, what it calls itself there, and how
 * much faster its clock is. SIGTERM ends it in good order.
 */
import { Secret } from '../../model/secret.ts';
import { joinTestStream } from '../../ledger/testing/postgres-replicas.ts';
import { TEST_USER } from '../../ledger/testing/postgres-server.ts';
import { createScaledClock } from '../../telemetry/testing/scaled-clock.ts';
import { startLiveDelivery } from './live-delivery.ts';

if (process.argv[1] === import.meta.filename) {
  const [port = '', database = '', url = '', names = '', self = '', factor = '1'] =
    process.argv.slice(2);
  const clock = createScaledClock(Number(factor));
  const replica = await joinTestStream(
    {
      host: '127.0.0.1',
      port: Number(port),
      name: database,
      user: TEST_USER,
      tls: { mode: 'disable' },
    },
    { clock, address: self },
  );
  const ending = new AbortController();
  const leasing = replica.leases.run(ending.signal);
  const live = await startLiveDelivery({
    ledger: replica.ledger,
    shared: replica,
    clock,
    destinations: names.split(',').map((name) => ({
      name,
      type: 'webhook',
      suspend: false,
      startFrom: 'earliest',
      options: {
        url: `${url}/${name}`,
        secrets: [],
        headers: new Map([['x-replica', new Secret(self)]]),
        source: 'control-plane',
      },
    })),
  });
  process.once('SIGTERM', () => {
    void (async () => {
      await live.stop();
      ending.abort();
      await leasing;
      await replica.ledger.close();
      process.exit(0);
    })();
  });
}
