//! The pages in a real browser: Debian's Chromium, driven through chromedriver.

mod chromium;
mod desk;
mod every_page;
mod holding;
mod purchase;
