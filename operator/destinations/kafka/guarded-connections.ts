import {
  type Broker,
  type CallbackWithPromise,
  type Connection,
  type ConnectionPool,
  createPromisifiedCallback,
  kCallbackPromise,
  NetworkError,
  UserError,
} from '@platformatic/kafka';
import type { LookupFunction } from 'node:net';
import { addressProblem, RefusedAddressError } from '../../outbound/address-guard.ts';
import { BadAnswerError, guardAnswers } from './broker-answers.ts';

type Callback = CallbackWithPromise<Connection>;

/** The bound of connections of one client. Kafka's largest clusters have some hundred brokers. */
const MOST_CONNECTIONS = 256;
const HIGHEST_PORT = 65_535;

/**
 * Checks each address at the moment when a client dials it. Brokers name further brokers, so
 * checking the settings is not enough (docs/explanation/security.md#d-3).
 *
 * `lookup` refuses names that resolve to forbidden addresses. The client has no hook for this, so
 * the function replaces its pool's `get`. The client receives only answers that {@link
 * guardAnswers} passes; `onBadAnswer` receives the others.
 */
export function guardConnections(
  pool: ConnectionPool,
  lookup: LookupFunction,
  tls: boolean,
  onBadAnswer: (error: BadAnswerError) => void,
): void {
  const dial = pool.get.bind(pool);
  const pending = { bytes: 0 };
  pool.on('connecting', ({ connection }) => {
    // A connection may emit a second error after the pool removed its listener. Without a listener
    // the process would end.
    connection.on('error', () => undefined);
    // The client creates the socket right after this event and reads from it only once connected.
    queueMicrotask(() => guardAnswers(connection.socket, pending, onBadAnswer));
  });

  function dialFirst([host = '', ...others]: readonly string[], port: number, callback: Callback) {
    dial({ host, port }, (error, connection) => {
      if (error !== null && others.length > 0) dialFirst(others, port, callback);
      else callback(error, connection);
    });
  }

  function dialName({ host, port }: Broker, callback: Callback): void {
    lookup(host, { all: true }, (error, found) => {
      if (error === null) {
        const hosts = Array.isArray(found) ? found.map(({ address }) => address) : [found];
        dialFirst(hosts, port, callback);
      } else if (error instanceof RefusedAddressError) callback(refusal(error));
      else callback(new NetworkError('name lookup failed', { cause: error }));
    });
  }

  function guardedGet(broker: Broker): Promise<Connection>;
  function guardedGet(broker: Broker, callback: Callback): void;
  function guardedGet(broker: Broker | undefined, given?: Callback): Promise<Connection> | void {
    const callback = given ?? createPromisifiedCallback<Connection>();
    const problem = addressProblem(broker?.host ?? '');
    if (problem !== undefined) callback(refusal(new RefusedAddressError(problem)));
    // With TLS the socket calls the same lookup itself and needs the name for the certificate.
    else if (broker === undefined) callback(new NetworkError('unknown broker', STALE));
    else if (broker.host === '' || broker.port < 1 || broker.port > HIGHEST_PORT) {
      callback(badBroker('a broker without a host or a port of 1 to 65535'));
    } else if ([...pool].length >= MOST_CONNECTIONS && !pool.has(broker)) {
      callback(badBroker(`more than ${MOST_CONNECTIONS} brokers`));
    } else if (tls) dial(broker, callback);
    else dialName(broker, callback);
    return callback[kCallbackPromise];
  }
  pool.get = guardedGet;
}

/** The leader of a partition left the cluster; this makes the client fetch the new one. */
const STALE = { hasStaleMetadata: true };

/** Refuses a broker that no cluster can have. */
function badBroker(problem: string): UserError {
  return new UserError('broker not allowed', { cause: new BadAnswerError(problem) });
}

/** Retrying is useless until the address changes. */
function refusal(cause: RefusedAddressError): UserError {
  return new UserError('address not allowed', { cause });
}
