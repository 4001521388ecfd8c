import pLimit from 'p-limit';
import {
  type Connection,
  type SASLCustomAuthenticator,
  saslPlain,
  saslScramSha,
} from '@platformatic/kafka';
import { BadAnswerError } from './broker-answers.ts';
import type { KafkaLogin } from './settings.ts';

/** Kafka's own brokers use 4,096 to 16,384; a million take half a second. */
const MOST_ITERATIONS = 1_000_000;
/** A server's first and last answer (RFC 5802, section 7). Kafka's brokers send no extensions. */
const FIRST_ANSWER = /^r=[!-+\--~]{1,512},s=[A-Za-z0-9+/]{1,512}={0,2},i=([1-9]\d{0,9})$/;
const LAST_ANSWER = /^(v=[A-Za-z0-9+/]{1,128}={0,2}|e=[^,=]{1,256})$/;
/** Shorter sessions would make the client log in again and again; a timer cannot wait longer. */
const SESSION_MS = { least: 60_000, most: 2 ** 31 - 1 };

type Authenticate = Parameters<SASLCustomAuthenticator>[2];
type Done = Parameters<SASLCustomAuthenticator>[6];

/**
 * Returns a login that checks each answer before the client reads it. It derives one password at a
 * time, so brokers occupy only one of the process's four threads for such work.
 */
export function createLogin(login: KafkaLogin): SASLCustomAuthenticator {
  const derive = deriveOneByOne();
  return (_mechanism, connection, authenticate, _username, _password, _token, callback) => {
    const { username, mechanism } = login;
    const password = login.password.reveal();
    const done: Done = (error, response) => {
      if (error !== null || response === undefined) callback(error, response);
      else callback(null, { ...response, sessionLifetimeMs: bounded(response.sessionLifetimeMs) });
    };
    if (mechanism === 'PLAIN') {
      saslPlain.authenticate(authenticate, connection, username, password, done);
      return;
    }
    const algorithm = mechanism === 'SCRAM-SHA-256' ? 'SHA-256' : 'SHA-512';
    const crypto = { ...saslScramSha.defaultCrypto, hi: derive(connection) };
    const api = checked(authenticate);
    saslScramSha.authenticate(api, connection, algorithm, username, password, crypto, done);
  };
}

/** Wraps the call for one login. An answer that breaks SCRAM's grammar or bounds is an error. */
function checked(authenticate: Authenticate): Authenticate {
  let answers = 0;
  return Object.assign(
    (connection: Connection, message: Buffer, callback: Done = () => undefined): void =>
      authenticate(connection, message, (error, response) => {
        answers += 1;
        const text = response?.authBytes.toString('latin1') ?? '';
        const problem = error === null ? problemOf(text, answers === 1) : undefined;
        if (problem === undefined) callback(error, response);
        else callback(new BadAnswerError(problem));
      }),
    authenticate,
  );
}

function problemOf(answer: string, isFirst: boolean): string | undefined {
  const match = (isFirst ? FIRST_ANSWER : LAST_ANSWER).exec(answer);
  if (match === null) return 'login: not an answer of SCRAM';
  if (!isFirst || Number(match[1]) <= MOST_ITERATIONS) return undefined;
  return `login: at most ${MOST_ITERATIONS} iterations are allowed: "${match[1]}"`;
}

/** Returns a function that derives keys one by one, without those of closed connections. */
function deriveOneByOne(): (connection: Connection) => typeof saslScramSha.hi {
  const inOrder = pLimit(1);
  return (connection) =>
    (...given) =>
      inOrder(async () => {
        if (connection.socket.destroyed) throw new Error('the connection is closed');
        return saslScramSha.hi(...given);
      });
}

function bounded(ms: bigint): bigint {
  if (ms <= 0n) return 0n;
  return BigInt(Math.min(Math.max(Number(ms), SESSION_MS.least), SESSION_MS.most));
}
