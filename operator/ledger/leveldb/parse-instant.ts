import { rememberLast } from '../../model/remember-last.ts';

/** Milliseconds since the epoch of an RFC 3339 time. */
export const parseInstant = rememberLast((text: string): number => Date.parse(text));
