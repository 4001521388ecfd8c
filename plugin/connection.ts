import { type OutgoingHttpHeaders, request as httpRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import { errorText } from '../operator/model/error-text.ts';
import { isRecord } from '../operator/model/is-record.ts';
import { parseExact } from './exact-json.ts';
import { object, text } from './fields.ts';

export interface Failure {
  readonly kind: 'failed';
  readonly message: string;
}

/** `value` keeps every number's digits. */
export type ApiOutcome = { readonly kind: 'ok'; readonly value: unknown } | Failure;

/** The operator's HTTP API, with the permissions of the caller. */
export interface Api {
  get(path: string, query?: Query): Promise<ApiOutcome>;
  post(path: string, body: unknown): Promise<ApiOutcome>;
}

/** Undefined and empty values are left out. */
export type Query = Readonly<Record<string, string | undefined>>;

export interface Target {
  /** An address of the operator's API, such as that of a port-forward; wins over what follows. */
  readonly url?: string;
  /** A kubeconfig file; by default those that kubectl would use. */
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace: string;
  /** `<Service>:<port>` of the operator. */
  readonly service: string;
  /** One of API_TOKEN. */
  readonly token?: string;
  readonly timeoutMs: number;
}

/**
 * Carries the token through an API server, which removes the Authorization header
 * (docs/how-to/kubectl-plugin.md#with-api_token).
 */
const TOKEN_HEADER = 'x-meterfeed-token';

/** Returns the API of a target, or why its kubeconfig cannot be used. It sends no request yet. */
export function connect(target: Target): { readonly kind: 'api'; readonly api: Api } | Failure {
  try {
    const call = target.url === undefined ? throughApiServer(target) : directly(target, target.url);
    return {
      kind: 'api',
      api: {
        get: (path, query = {}) => call('GET', path + queryText(query)),
        post: (path, body) => call('POST', path, JSON.stringify(body)),
      },
    };
  } catch (error) {
    return { kind: 'failed', message: errorText(error) };
  }
}

type Call = (method: string, path: string, body?: string) => Promise<ApiOutcome>;

function directly({ token, timeoutMs }: Target, url: string): Call {
  const base = url.replace(/\/+$/, '');
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return (method, path, body) =>
    send(new URL(base + path), { method, headers, timeout: timeoutMs }, body);
}

function throughApiServer(target: Target): Call {
  const { namespace, service, token, timeoutMs } = target;
  const kubeConfig = loadKubeConfig(target);
  const server = kubeConfig.getCurrentCluster()?.server.replace(/\/+$/, '');
  if (server === undefined) {
    throw new Error(
      'kubeconfig: no current context: name one with --context or `kubectl config use-context`',
    );
  }
  const proxy = `/api/v1/namespaces/${encodeURIComponent(namespace)}/services/${encodeURIComponent(service)}/proxy`;
  return async (method, path, body) => {
    const options: RequestOptions = {};
    try {
      await kubeConfig.applyToHTTPSOptions(options);
    } catch (error) {
      return { kind: 'failed', message: `kubeconfig: ${errorText(error)}` };
    }
    const given = isRecord(options.headers) ? options.headers : {};
    const headers = { ...given, ...(token !== undefined && { [TOKEN_HEADER]: token }) };
    const url = new URL(server + proxy + path);
    return send(url, { ...options, method, headers, timeout: timeoutMs }, body);
  };
}

function loadKubeConfig({ kubeconfig, context }: Target): KubeConfig {
  const loaded = new KubeConfig();
  if (kubeconfig === undefined) loaded.loadFromDefault();
  else loaded.loadFromFile(kubeconfig);
  if (context === undefined) return loaded;
  if (loaded.getContextObject(context) === null) {
    const known = loaded.getContexts().map(({ name }) => name);
    throw new Error(`kubeconfig: no such context: "${context}": use one of ${known.join(', ')}`);
  }
  loaded.setCurrentContext(context);
  return loaded;
}

interface SendOptions extends RequestOptions {
  readonly headers: OutgoingHttpHeaders;
}

function send(url: URL, options: SendOptions, body?: string): Promise<ApiOutcome> {
  const { promise, resolve } = Promise.withResolvers<ApiOutcome>();
  const failed = (message: string): void => resolve({ kind: 'failed', message });
  const request = url.protocol === 'http:' ? httpRequest : httpsRequest;
  const headers = {
    ...options.headers,
    accept: 'application/json',
    ...(body !== undefined && {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    }),
  };
  const sent = request(url, { ...options, headers }, (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.once('error', (error) => failed(`${url.host}: ${errorText(error)}`));
    response.once('end', () =>
      resolve(
        outcomeOf({
          status: response.statusCode ?? 0,
          isLines: response.headers['content-type']?.startsWith(LINES) === true,
          body: Buffer.concat(chunks).toString(),
          host: url.host,
        }),
      ),
    );
  });
  sent.once('timeout', () =>
    sent.destroy(new Error(`no answer within ${(options.timeout ?? 0) / 1000} s`)),
  );
  sent.once('error', (error) => failed(`${url.host}: ${errorText(error)}`));
  sent.end(body);
  return promise;
}

interface Answered {
  readonly status: number;
  /** Whether the body has one JSON value a line; it is read as a list then. */
  readonly isLines: boolean;
  readonly body: string;
  readonly host: string;
}

/** The media type of exported events. */
const LINES = 'application/x-ndjson';

function outcomeOf({ status, isLines, body, host }: Answered): ApiOutcome {
  let value: unknown;
  try {
    value = parseExact(isLines ? `[${body.trim().replaceAll('\n', ',')}]` : body);
  } catch {
    return {
      kind: 'failed',
      message: `${host}: status ${status}, and no JSON: is this meterfeed?`,
    };
  }
  if (status >= 200 && status < 300) return { kind: 'ok', value };
  const isApiServer = text(value, 'kind') === 'Status';
  const message = text(value, isApiServer ? 'message' : 'error') || `${host}: status ${status}`;
  const fix = (isApiServer ? OF_API_SERVER : OF_OPERATOR)[status];
  return { kind: 'failed', message: fix === undefined ? message : `${message}\n${fix}` };
}

const OF_API_SERVER: Readonly<Record<number, string>> = {
  401: 'Log in to the cluster; `kubectl get namespaces` would fail the same way.',
  403: 'Reading needs the Role meterfeed-api-reader, replay the Role meterfeed-api-operator, of the component api-access.',
  404: 'Name the namespace of the operator with --namespace, and its Service with --service.',
  503: 'The operator is not ready, or the API server may not connect to it (a network policy): use --url with `kubectl port-forward`.',
};

const OF_OPERATOR: Readonly<Record<number, string>> = {
  401: 'The operator has an API_TOKEN: give one in METERFEED_TOKEN or --token-file.',
};

function queryText(query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, value] as [string, string]],
  );
  return given.length === 0 ? '' : `?${new URLSearchParams(given).toString()}`;
}

/** The values of one field of all objects in a list, for completion. */
export function fieldsOf(value: unknown, list: string, field: string): readonly string[] {
  const items = object(value, list);
  return Array.isArray(items) ? items.map((item) => text(item, field)) : [];
}
