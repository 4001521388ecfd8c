import type { FakeResponse } from '../fake-server.ts';

/** Error answers as Lago words them (docs/how-to/destinations/lago.md#how-lago-answers). */
export const UNAUTHORIZED: FakeResponse = {
  status: 401,
  body: { status: 401, error: 'Unauthorized' },
};

/** Every success has the status 200. */
export function ok(body: unknown): FakeResponse {
  return { status: 200, body };
}

export function badRequest(message: string): FakeResponse {
  return { status: 400, body: { status: 400, error: `BadRequest: ${message}` } };
}

/** Returns a 404. `what` is in Lago's own spelling: `plan`, `billable_metrics`, `resource`. */
export function notFound(what: string): FakeResponse {
  return { status: 404, body: { status: 404, error: 'Not Found', code: `${what}_not_found` } };
}

export function forbidden(code: string): FakeResponse {
  return { status: 403, body: { status: 403, error: 'Forbidden', code } };
}

export function notAllowed(code: string): FakeResponse {
  return { status: 405, body: { status: 405, error: 'Method Not Allowed', code } };
}

export function invalid(details: Readonly<Record<string, unknown>>): FakeResponse {
  return {
    status: 422,
    body: {
      status: 422,
      error: 'Unprocessable Entity',
      code: 'validation_errors',
      error_details: details,
    },
  };
}

/** Returns one page of a list with its `meta`, by the query. */
export function page(
  root: string,
  items: readonly unknown[],
  query: URLSearchParams,
): FakeResponse {
  const perPage = Math.max(1, Number(query.get('per_page') ?? 100));
  const current = Math.max(1, Number(query.get('page') ?? 1));
  const totalPages = Math.ceil(items.length / perPage);
  const meta = {
    current_page: items.length === 0 ? 0 : current,
    next_page: current < totalPages ? current + 1 : null,
    prev_page: current > 1 ? current - 1 : null,
    total_pages: totalPages,
    total_count: items.length,
  };
  return ok({ [root]: items.slice((current - 1) * perPage, current * perPage), meta });
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the text of a field; undefined when it is absent, blank or no text. */
export function text(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value : undefined;
}
