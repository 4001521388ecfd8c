import { isNativeError } from 'node:util/types';
import { RefusedAddressError } from '../../outbound/address-guard.ts';
import { describeFailure } from '../../outbound/failure-reason.ts';
import { BadAnswerError, TLS_MISSING } from './broker-answers.ts';

/** The outcome of a record; `split` is a refusal that does not name the record. */
export type KafkaWriteOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly reason: string }
  | { readonly kind: 'blocked'; readonly reason: string }
  | { readonly kind: 'split'; readonly reason: string; readonly tooLarge: boolean };

const LOGIN = 'check spec.kafka.sasl (KAFKA_USERNAME, KAFKA_PASSWORD, KAFKA_SASL_MECHANISM)';
const TLS = 'check spec.kafka.tls (KAFKA_TLS) and the port';

/** Errors that only a person can fix, by their name in Kafka's protocol, with the fix. */
const FIXES: Readonly<Record<string, string>> = {
  SASL_AUTHENTICATION_FAILED: LOGIN,
  UNSUPPORTED_SASL_MECHANISM: LOGIN,
  ILLEGAL_SASL_STATE: LOGIN,
  TOPIC_AUTHORIZATION_FAILED: 'allow the user to write to and describe the topic',
  CLUSTER_AUTHORIZATION_FAILED: 'allow the user IdempotentWrite on the cluster',
  INVALID_TOPIC_EXCEPTION: 'check spec.kafka.topic (KAFKA_TOPIC)',
  UNSUPPORTED_VERSION: 'the brokers are too old',
  UNSUPPORTED_FOR_MESSAGE_FORMAT: 'the brokers are too old',
};

/** Errors about the content of a batch. */
const TOO_LARGE = new Set(['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE']);
const REFUSED = new Set(['INVALID_RECORD', 'INVALID_TIMESTAMP', 'POLICY_VIOLATION']);

/** Advice where a retry may not be enough. */
const HINTS: Readonly<Record<string, string>> = {
  UNKNOWN_TOPIC_OR_PARTITION: 'create the topic, or check spec.kafka.topic (KAFKA_TOPIC)',
  NOT_ENOUGH_REPLICAS: 'fewer replicas are in sync than min.insync.replicas requires',
};

const AUTHENTICATION = 'PLT_KFK_AUTHENTICATION';
/** Errors for which the client has no code of its own. */
const TLS_UNKNOWN = 'TLS handshake failed';
const UNKNOWN_TOPIC = 'Unknown topic';
const CLOSED = 'Connection closed';
const CLOSED_TEXT = `connection closed by the broker; if that lasts, ${LOGIN}`;

/**
 * Translates the error of a write to a topic into an outcome
 * (docs/how-to/destinations/kafka.md#what-errors-mean). It passes on no text from the other side.
 */
export function outcomeOf(
  error: unknown,
  topic: string,
): Exclude<KafkaWriteOutcome, { kind: 'delivered' }> {
  const all = errorsOf(error);
  const where = `Kafka topic ${topic}`;
  const refused = all.find((one) => one instanceof RefusedAddressError);
  if (refused !== undefined) return { kind: 'blocked', reason: `${where}: ${refused.message}` };
  const bad = all.find((one) => one instanceof BadAnswerError);
  if (bad !== undefined && bad.message !== TLS_MISSING) {
    return {
      kind: 'blocked',
      reason: `${where}: the brokers do not answer as Kafka does: ${bad.message}`,
    };
  }
  const names = all.flatMap(({ apiId }) => apiId ?? []);
  const fixable = names.find((name) => name in FIXES);
  if (fixable !== undefined)
    return { kind: 'blocked', reason: `${where}: ${fixable}: ${FIXES[fixable] ?? ''}` };
  if (all.some(({ message }) => message.startsWith(TLS_MISSING))) {
    return { kind: 'blocked', reason: `${where}: the brokers require TLS: ${TLS}` };
  }
  if (all.some(({ message }) => message.startsWith(TLS_UNKNOWN))) {
    return { kind: 'blocked', reason: `${where}: the brokers do not use TLS: ${TLS}` };
  }
  // A connection that broke during login proves nothing about the credentials.
  const broken = all.some(({ message }) => message.startsWith(CLOSED));
  if (!broken && all.some(({ code }) => code === AUTHENTICATION)) {
    return { kind: 'blocked', reason: `${where}: login refused: ${LOGIN}` };
  }
  const large = names.find((name) => TOO_LARGE.has(name));
  if (large !== undefined) return { kind: 'split', reason: `${where}: ${large}`, tooLarge: true };
  const denied = names.find((name) => REFUSED.has(name));
  if (denied !== undefined)
    return { kind: 'split', reason: `${where}: ${denied}`, tooLarge: false };
  const unknown = all.some(({ message }) => message.startsWith(UNKNOWN_TOPIC));
  const name = unknown ? 'UNKNOWN_TOPIC_OR_PARTITION' : names.at(-1);
  if (name === undefined) {
    const closed = all.some(({ message }) => message.startsWith(CLOSED));
    const text = closed ? CLOSED_TEXT : describeFailure(error).text;
    return { kind: 'retry', reason: `${where}: ${text}` };
  }
  const hint = HINTS[name];
  return { kind: 'retry', reason: `${where}: ${name}${hint === undefined ? '' : `: ${hint}`}` };
}

/** The shape of the client's errors; `apiId` is the name of an error in Kafka's protocol. */
type ClientError = Error & { readonly code?: string; readonly apiId?: string };

/** Returns the error, its members and its causes, the innermost last. */
function errorsOf(error: unknown): ClientError[] {
  if (!isNativeError(error)) return [];
  const parts: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  return [error, ...parts.flatMap(errorsOf), ...errorsOf(error.cause)];
}
