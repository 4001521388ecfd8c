import { stripVTControlCharacters } from 'node:util';

/** C0 without tab and line ends, DEL and C1: a terminal obeys them. */
// oxlint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;

/** The characters of a text as terminals count them, so that none is cut in half. */
export function characters(text: string): readonly string[] {
  return Array.from(text);
}

/** The text without ANSI sequences and control characters; tabs and line ends stay. */
export function withoutControls(text: string): string {
  return stripVTControlCharacters(text).replaceAll(CONTROL, '');
}

/**
 * JSON or YAML text with each control character as its escape, so that the document stays the same.
 */
export function escapeControls(text: string): string {
  return text.replaceAll(
    CONTROL,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
