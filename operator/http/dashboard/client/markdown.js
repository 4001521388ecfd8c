import { html } from './preact.js';
import { placeFrom } from './documents.js';

/** @typedef {import('preact').ComponentChildren} Children */
/**
 * The shared state of the blocks of a page: its name, and how often each anchor was used.
 * @typedef {{ page: string, anchors: Map<string, number> }} Context
 */

/**
 * The anchor of a heading, as code hosts make it: the second of the same text ends in `-1`.
 * @param {string} title @param {Map<string, number>} given
 */
function anchorOf(title, given) {
  const anchor = title
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');
  const before = given.get(anchor) ?? 0;
  given.set(anchor, before + 1);
  return before === 0 ? anchor : `${anchor}-${before}`;
}

/**
 * Renders the Markdown that the documentation uses, as elements, never as markup.
 * @param {{ text: string, page: string }} properties `page` is where its links start from
 */
export function Markdown({ text, page }) {
  const context = { page, anchors: new Map() };
  return html`${blocksOf(text).map((lines) => block(lines, context))}`;
}

/**
 * Lines that belong together: fenced code, or what stands between empty lines.
 * @param {string} text
 */
function blocksOf(text) {
  /** @type {string[][]} */
  const blocks = [];
  let open = false;
  let fenced = false;
  for (const line of text.split('\n')) {
    const fence = line.trimStart().startsWith('```');
    if (!open && (line.trim() !== '' || fence)) blocks.push([]);
    if (line.trim() !== '' || fenced) blocks.at(-1)?.push(line);
    if (fence) fenced = !fenced;
    open = fenced || (line.trim() !== '' && !fence && !line.startsWith('#'));
  }
  return blocks;
}

/** @param {string[]} lines @param {Context} context @returns {Children} */
function block(lines, context) {
  const [first = ''] = lines;
  const [, marks = '', title = ''] = /^(#{1,6})\s+(.*)$/.exec(first) ?? [];
  if (marks !== '') return heading(marks.length, title, context);
  if (first.trimStart().startsWith('```'))
    return html`<pre tabindex="0">${lines.slice(1, -1).join('\n')}</pre>`;
  if (first.startsWith('<!--')) return null;
  if (first.startsWith('>')) return quotation(lines, context);
  if (first.startsWith('|')) return table(lines, context);
  if (/^\s*(-|\d+\.)\s/.test(first)) return list(lines, context);
  return html`<p>${inline(lines.join(' '), context)}</p>`;
}

/** @param {string[]} lines @param {Context} context */
function quotation(lines, context) {
  const text = lines.map((line) => line.replace(/^> ?/, '')).join('\n');
  return html`<blockquote>${blocksOf(text).map((part) => block(part, context))}</blockquote>`;
}

/** @param {number} level @param {string} title @param {Context} context */
function heading(level, title, context) {
  const id = anchorOf(title, context.anchors);
  return level <= 2
    ? html`<h2 id=${id} tabindex="-1">${inline(title, context)}</h2>`
    : html`<h3 id=${id} tabindex="-1">${inline(title, context)}</h3>`;
}

/** @param {string[]} lines @param {Context} context */
function list(lines, context) {
  /** @type {string[]} */
  const items = [];
  for (const line of lines) {
    const [, text] = /^\s*(?:-|\d+\.)\s+(.*)$/.exec(line) ?? [];
    if (text === undefined) items.push(`${items.pop() ?? ''} ${line.trim()}`);
    else items.push(text);
  }
  const shown = items.map((item) => html`<li>${inline(item, context)}</li>`);
  const [, start] = /^\s*(\d+)\./.exec(lines[0] ?? '') ?? [];
  return start === undefined
    ? html`<ul>${shown}</ul>`
    : html`<ol start=${Number(start)}>${shown}</ol>`;
}

/** @param {string[]} lines @param {Context} context */
function table(lines, context) {
  const [head = [], , ...rows] = lines.map((line) =>
    line
      .replaceAll(/^\||\|$/g, '')
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll('\\|', '|')),
  );
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${head.join(', ')}>
      <table>
        <thead><tr>${head.map((cell) => html`<th scope="col">${cell === '' ? '–' : inline(cell, context)}</th>`)}</tr></thead>
        <tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${inline(cell, context)}</td>`)}</tr>`)}</tbody>
      </table>
    </div>
  `;
}

const INLINE =
  /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|<a id="([^"]*)"><\/a>|!\[([^\]]*)\]\([^)]*\)|\[([^\]]*)\]\(([^)]*)\)/g;

/** @param {string} text @param {Context} context @returns {Children[]} */
function inline(text, context) {
  /** @type {Children[]} */
  const children = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const [matched, code, bold, slanted, anchor, picture, label, target = ''] = match;
    children.push(text.slice(at, match.index));
    if (code !== undefined) children.push(html`<code>${code}</code>`);
    else if (bold !== undefined) children.push(html`<strong>${inline(bold, context)}</strong>`);
    else if (slanted !== undefined) children.push(html`<em>${inline(slanted, context)}</em>`);
    else if (anchor !== undefined) children.push(html`<span id=${anchor} tabindex="-1"></span>`);
    else if (picture !== undefined) children.push(html`<em>(picture: ${picture})</em>`);
    else if (label !== undefined) children.push(reference(label, target, context));
    at = match.index + matched.length;
  }
  children.push(text.slice(at));
  return children;
}

/**
 * A link. Pages of the documentation open here, other sites in a new tab.
 * @param {string} label
 * @param {string} target
 * @param {Context} context
 */
function reference(label, target, context) {
  if (/^https?:/.test(target))
    return html`<a href=${target} rel="noreferrer noopener" target="_blank">${inline(label, context)}</a>`;
  const place = placeFrom(context.page, target);
  return place === undefined
    ? inline(label, context)
    : html`<a href=${place}>${inline(label, context)}</a>`;
}
